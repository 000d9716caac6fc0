-- What the database says of an outbox's bell. Publications of all tables, or of a schema's, are not meant: they would send
-- every row.

-- query: Look
SELECT EXISTS (SELECT FROM pg_publication AS p JOIN pg_publication_rel AS r ON r.prpubid = p.oid
                WHERE p.pubname = @publication AND p.pubinsert AND r.prrelid = to_regclass('{schema}.outbox_ready')),
       current_setting('wal_level'), current_setting('synchronous_standby_names'),
       n.slot, coalesce(s.active_pid, 0), s.confirmed_flush_lsn IS NOT NULL
  FROM (SELECT format('postrider_%s_%s', d.oid, left(md5(@schema), 16)) AS slot
          FROM pg_database AS d WHERE d.datname = current_database()) AS n
  LEFT JOIN pg_replication_slots AS s ON s.slot_name = n.slot
