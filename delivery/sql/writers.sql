-- The highest sequence that is visible, the watermark, and the transactions that
-- hold a lock which a writer of events holds. All that was drawn up to then is
-- decided when these have ended, by name; but nothing while there is a prepared one
-- that the server recovered, for that has another name than before (advance.sql).
WITH RECURSIVE leaves (relid) AS (
       SELECT $1::text::regclass::oid
        UNION ALL
       SELECT i.inhrelid FROM pg_inherits AS i JOIN leaves ON i.inhparent = leaves.relid)
SELECT (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e),
       (SELECT w.safe_sequence FROM {schema}.outbox_watermark AS w),
       coalesce(array_agg(DISTINCT l.virtualtransaction), '{}'),
       coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false)
  FROM pg_locks AS l
 WHERE l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'
   AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
   AND l.relation IN (SELECT relid FROM leaves)
   AND l.pid IS DISTINCT FROM pg_backend_pid()
