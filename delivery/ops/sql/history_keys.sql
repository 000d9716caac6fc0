-- The partitions of the history with their lowest first sequence, found by
-- hopping through an index, however long the history is.
WITH RECURSIVE k (partition_key) AS (
       (SELECT d.partition_key FROM {schema}.outbox_deliveries AS d ORDER BY d.partition_key LIMIT 1)
        UNION ALL
       SELECT (SELECT d.partition_key
                 FROM {schema}.outbox_deliveries AS d
                WHERE d.partition_key > k.partition_key
                ORDER BY d.partition_key
                LIMIT 1)
         FROM k
        WHERE k.partition_key IS NOT NULL)
SELECT k.partition_key,
       (SELECT d.first_sequence
          FROM {schema}.outbox_deliveries AS d
         WHERE d.partition_key = k.partition_key
         ORDER BY d.first_sequence
         LIMIT 1)
  FROM k
 WHERE k.partition_key IS NOT NULL
