-- In the order of marks, so that neither waits for the other in a circle.
SELECT FROM {schema}.outbox_partitions ORDER BY partition_key FOR NO KEY UPDATE
