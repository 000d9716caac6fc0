-- What keeps vacuum from removing dead rows of this database: the oldest
-- transaction that a session, a prepared transaction, a standby or a replication
-- slot may still have to see, and for how long a transaction has been open. No
-- row for a role that may not look at other roles' sessions.
SELECT coalesce(max(age(h.xmin)), 0), coalesce(max(clock_timestamp() - h.since), interval '0')
  FROM (SELECT a.backend_xmin AS xmin, a.xact_start AS since
          FROM pg_stat_activity AS a
         WHERE a.backend_xmin IS NOT NULL
           AND (a.datname = current_database() OR a.datid IS NULL) AND a.pid <> pg_backend_pid()
           AND a.backend_type <> 'autovacuum worker'
         UNION ALL
        SELECT p.transaction, p.prepared
          FROM pg_prepared_xacts AS p
         WHERE p.database = current_database()
         UNION ALL
        SELECT s.xmin, NULL
          FROM pg_replication_slots AS s
         WHERE s.xmin IS NOT NULL) AS h
HAVING pg_has_role('pg_read_all_stats', 'USAGE')
