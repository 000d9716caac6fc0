-- The partitions that are no more and that $1 answers for, and what the stream was
-- known to hold of them.
SELECT f.partition_key, f.fence_sequence, f.stream_sequence
  FROM {schema}.outbox_former_partitions AS f
 CROSS JOIN {schema}.outbox_settings AS s
 WHERE f.partition_key % s.partition_count = $1::int
 ORDER BY f.partition_key
