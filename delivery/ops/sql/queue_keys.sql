-- The partitions whose rows the outbox may hold: also those that lack a lease row.
SELECT partition_key FROM {schema}.outbox_partitions
 UNION
SELECT p::smallint FROM {schema}.outbox_settings AS s, generate_series(0, s.partition_count - 1) AS p
