-- Rows that wait for their time wait for ever, so that no worker begins with them;
-- the answer is what they waited for, nothing where they were held already.
WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, o.available_at
         FROM unnest($1::smallint[], $2::bigint[]) AS s (partition_key, sequence)
         JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND {state} = 'scheduled'
          FOR UPDATE OF o),
     held AS (
       UPDATE {schema}.outbox AS o
          SET available_at = 'infinity'
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence)
SELECT partition_key, global_sequence, CASE WHEN isfinite(available_at) THEN available_at END
  FROM chosen
