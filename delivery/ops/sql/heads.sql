-- The first rows of a partition that failed or died, and how many of their
-- streams wait behind each, counted up to $3.
SELECT o.stream_id, o.global_sequence, {state}, o.attempts,
       CASE WHEN isfinite(o.available_at) THEN o.available_at END, o.dead_at, coalesce(o.last_error, ''),
       (SELECT count(*)
          FROM (SELECT FROM {schema}.outbox AS b
                 WHERE b.parked AND b.partition_key = o.partition_key AND b.stream_id = o.stream_id
                   AND b.global_sequence > o.global_sequence
                 LIMIT $3) AS w)
  FROM {schema}.outbox AS o
 WHERE o.partition_key = $1{trouble}
 ORDER BY o.global_sequence
 LIMIT $2
