-- In the order of the workers' marks, so that neither waits for the other in a
-- circle.
SELECT partition_key
  FROM {schema}.outbox_partitions
 WHERE partition_key = ANY ($1::smallint[])
 ORDER BY partition_key
   FOR NO KEY UPDATE
