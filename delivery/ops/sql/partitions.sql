-- Those of the partitions that exist, all without $1, and whether they are paused.
SELECT partition_key, paused_at IS NOT NULL
  FROM {schema}.outbox_partitions
 WHERE $1::smallint[] IS NULL OR partition_key = ANY ($1)
 ORDER BY partition_key
