-- Raises the epoch of every partition and leaves the owner empty.
UPDATE {schema}.outbox_partitions AS p
   SET lease_owner = NULL,
       lease_until = NULL,
       lease_epoch = p.lease_epoch + 1,
       updated_at  = clock_timestamp()
RETURNING p.partition_key, p.lease_epoch, p.delivered, p.fence_sequence, p.stream_sequence, p.crashes, p.suspect, p.suspected,
          (SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) FROM pg_control_system() AS c)
