-- The row of one message in the outbox, found as in among.sql.
SELECT o.partition_key, o.stream_id, o.topic, {state}, o.attempts, o.generation,
       CASE WHEN isfinite(o.available_at) THEN o.available_at END, o.dead_at, coalesce(o.last_error, ''), o.failures
  FROM unnest($1::smallint[]) AS p (partition_key)
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM {schema}.outbox AS r
          WHERE r.partition_key = p.partition_key AND r.global_sequence >= $2 AND r.global_sequence <= $2
          ORDER BY r.global_sequence
          LIMIT 1) AS o
