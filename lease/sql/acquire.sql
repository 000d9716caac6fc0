-- Takes the free ones among the partitions asked for. A row that still names
-- this worker is free too: the process has given that lease up before it asks.
-- SKIP LOCKED: a row that somebody else is taking now will be theirs.
-- While the outbox is frozen only $4 gets leases.
-- A predecessor that let its lease run out may have crashed over its work.
UPDATE {schema}.outbox_partitions AS p
   SET lease_owner = $1,
       lease_epoch = p.lease_epoch + 1,
       lease_until = clock_timestamp() + $2::interval,
       crashes     = p.crashes + (p.lease_owner IS NOT NULL AND p.lease_owner <> $1)::int,
       suspected   = p.suspected + (p.suspect IS NOT NULL AND p.lease_owner IS NOT NULL AND p.lease_owner <> $1)::int,
       updated_at  = clock_timestamp()
 WHERE p.partition_key IN (
         SELECT f.partition_key
           FROM {schema}.outbox_partitions AS f
          WHERE f.partition_key = ANY ($3::smallint[])
            AND (f.lease_owner IS NULL OR f.lease_owner = $1 OR f.lease_until < clock_timestamp())
            AND ($4::boolean
                 OR NOT EXISTS (SELECT FROM {schema}.outbox_settings AS s WHERE s.frozen_at > clock_timestamp() - interval '1 minute'))
          ORDER BY f.partition_key
            FOR NO KEY UPDATE OF f SKIP LOCKED)
RETURNING p.partition_key, p.lease_epoch, p.delivered, p.fence_sequence, p.stream_sequence, p.crashes, p.suspect, p.suspected,
          (SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) FROM pg_control_system() AS c)
