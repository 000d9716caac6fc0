-- Read last in a claim: a position of the log behind all that was read, and since
-- when this session lives. A crash of the server ends every session.
SELECT pg_current_wal_insert_lsn()::text, s.generation,
       (SELECT a.backend_start FROM pg_stat_get_activity(pg_backend_pid()) AS a)
  FROM {schema}.outbox_settings AS s
