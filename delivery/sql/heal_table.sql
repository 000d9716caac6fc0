-- The number of partitions stays while rows are queued.
LOCK TABLE {schema}.outbox IN ROW EXCLUSIVE MODE
