SELECT array_agg(p::smallint) FROM {schema}.outbox_settings AS s, generate_series(0, s.partition_count - 1) AS p
