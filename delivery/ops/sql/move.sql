-- Held rows wait for another time; the answer is what they were.
WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error
         FROM unnest($1::smallint[], $2::bigint[]) AS s (partition_key, sequence)
         JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND o.available_at = 'infinity'
          FOR UPDATE OF o),
     moved AS (
       UPDATE {schema}.outbox AS o
          SET available_at = $3, scheduled_for = $3
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM chosen
 ORDER BY partition_key, global_sequence
