-- Which partitions are paused, since when, and how many partitions there are.
SELECT coalesce(array_agg(partition_key ORDER BY partition_key) FILTER (WHERE paused_at IS NOT NULL), '{}'), min(paused_at), count(*)
  FROM {schema}.outbox_partitions
