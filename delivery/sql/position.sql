-- Read last in a claim: a position of the log behind all that was read.
SELECT pg_current_wal_insert_lsn()::text, s.generation FROM {schema}.outbox_settings AS s
