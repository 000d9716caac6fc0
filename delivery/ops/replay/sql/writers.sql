-- The highest sequence that is visible, the watermark, and the transactions that
-- hold a lock which a writer of events holds: of the table, its partitions, and
-- the tables that a view reads, each with its process, 0 for a prepared one. All that
-- was drawn up to then is decided when these have ended, by name; but nothing while
-- there is a prepared one that the server recovered, for that has another name than
-- before.
WITH RECURSIVE tables (relid) AS (
       SELECT $1::text::regclass::oid
        UNION
       SELECT below.relid
         FROM tables AS t
        CROSS JOIN LATERAL (
                SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = t.relid
                 UNION ALL
                SELECT d.refobjid
                  FROM pg_rewrite AS r
                  JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
                 WHERE r.ev_class = t.relid AND r.ev_type = '1') AS below (relid))
SELECT (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e),
       (SELECT w.safe_sequence FROM {schema}.outbox_watermark AS w),
       coalesce(array_agg(l.virtualtransaction), '{}'), coalesce(array_agg(coalesce(l.pid, 0)), '{}'),
       coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false)
  FROM (SELECT DISTINCT k.virtualtransaction, k.pid
          FROM pg_locks AS k
         WHERE k.locktype = 'relation' AND k.granted AND k.mode = 'RowExclusiveLock'
           AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
           AND k.relation IN (SELECT relid FROM tables)
           AND k.pid IS DISTINCT FROM pg_backend_pid()) AS l
