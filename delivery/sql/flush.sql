-- Makes everything that was visible when $1 was read durable, before it is
-- published: an asynchronous commit could be lost and its sequence used again.
-- A record is only written when the log is not flushed that far already.
SELECT set_config('synchronous_commit', 'on', true),
       CASE WHEN pg_current_wal_flush_lsn() < $1::pg_lsn
            THEN pg_logical_emit_message(true, 'postrider', '') END
