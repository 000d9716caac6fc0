-- Where the watermark stands, and which transactions hold it back: those that the
-- candidate waits for, recovered ones (advance.sql), and, as long as there is any of
-- these, others that have been open for a second: they hold back what comes next.
-- Without pg_read_all_stats only the process ids of other roles' sessions are known,
-- and none of those others.
SELECT w.safe_sequence,
       (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e),
       coalesce(clock_timestamp() - w.candidate_at, interval '0'),
       h.pid, h.application_name, h.state, coalesce(clock_timestamp() - coalesce(h.xact_start, h.prepared_at), interval '0'), h.gid
  FROM {schema}.outbox_watermark AS w
  LEFT JOIN LATERAL (
         SELECT DISTINCT n.pid, n.application_name, n.state, n.xact_start, n.gid, n.prepared_at
           FROM (SELECT l.pid, a.application_name, a.state, a.xact_start, p.gid, p.prepared AS prepared_at,
                        l.virtualtransaction = ANY (w.holders) OR l.virtualtransaction LIKE '-1/%' AS awaited,
                        bool_or(l.virtualtransaction = ANY (w.holders) OR l.virtualtransaction LIKE '-1/%') OVER () AS any_awaited
                   FROM pg_locks AS l
                   LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
                   -- A prepared transaction's own id is known by the lock that it holds on that.
                   LEFT JOIN pg_locks AS x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.granted
                                          AND x.virtualtransaction = l.virtualtransaction
                   LEFT JOIN pg_prepared_xacts AS p ON p.transaction = x.transactionid
                  WHERE w.candidate IS NOT NULL
                    AND l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'
                    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
                    AND l.relation IN (WITH RECURSIVE leaves (relid) AS (
                                              SELECT $1::text::regclass::oid
                                               UNION ALL
                                              SELECT i.inhrelid FROM pg_inherits AS i JOIN leaves ON i.inhparent = leaves.relid)
                                       SELECT relid FROM leaves)) AS n
          WHERE n.awaited
             OR n.any_awaited AND coalesce(n.xact_start, n.prepared_at) < clock_timestamp() - interval '1 second') AS h ON true
 WHERE w.id
 ORDER BY coalesce(h.xact_start, h.prepared_at) NULLS LAST, h.pid
