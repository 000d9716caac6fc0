INSERT INTO {schema}.outbox_partitions (partition_key)
SELECT n FROM generate_series(0, $1::int - 1) AS n
ON CONFLICT (partition_key) DO NOTHING
