-- Dead and failed rows begin anew where they are; the answer is what they were.
WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error
         FROM unnest($1::smallint[], $2::bigint[]) AS s (partition_key, sequence)
         JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
          FOR UPDATE OF o),
     changed AS (
       UPDATE {schema}.outbox AS o
          SET attempts     = 0,
              generation   = o.generation + 1,
              dead_at      = NULL,
              last_error   = NULL,
              available_at = clock_timestamp(),
              blocked      = EXISTS (SELECT FROM {schema}.outbox AS f
                                      WHERE f.parked
                                        AND f.partition_key = o.partition_key
                                        AND f.stream_id = o.stream_id
                                        AND f.global_sequence < o.global_sequence)
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM chosen
 ORDER BY partition_key, global_sequence
