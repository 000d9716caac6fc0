-- Which of the sequences are in the outbox, and why they are still there.
SELECT o.global_sequence,
       CASE WHEN o.dead_at IS NOT NULL THEN 'dead' WHEN o.blocked THEN 'blocked' WHEN o.attempts > 0 THEN 'failed' ELSE 'pending' END
  FROM unnest($1::smallint[], $2::bigint[]) AS s (partition_key, sequence)
  JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
 ORDER BY o.global_sequence
 LIMIT 1
