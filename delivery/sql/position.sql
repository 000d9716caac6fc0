-- Read last in a claim: a position of the log behind all that was read, and since
-- when this session lives, as a crash of the server ends every session; and since when
-- this server does, as another one may have forgotten something. The fifth value tells
-- whether anything may come due without being written. With $1, for a claim that read
-- the events, too: if it found any, the end of this transaction makes all that it saw
-- durable, as flush.sql does.
SELECT pg_current_wal_insert_lsn()::text, s.generation,
       (SELECT a.backend_start FROM pg_stat_get_activity(pg_backend_pid()) AS a), pg_postmaster_start_time(),
       EXISTS (SELECT FROM {schema}.outbox_parked AS p WHERE NOT p.blocked AND p.dead_at IS NULL),
       CASE WHEN $1::boolean AND current_setting('postrider.found', true) = 'true' AND pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()
            THEN set_config('synchronous_commit', 'on', true) || pg_logical_emit_message(true, 'postrider', '') END
  FROM {schema}.outbox_settings AS s
