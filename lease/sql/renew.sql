-- All leases of this worker in one statement; rows are locked in one order, so
-- that it cannot deadlock with the worker's own marks.
UPDATE {schema}.outbox_partitions AS p
   SET lease_until = clock_timestamp() + $2::interval,
       updated_at  = clock_timestamp()
  FROM (SELECT f.partition_key
          FROM unnest($3::smallint[], $4::bigint[]) AS mine (partition_key, epoch)
          JOIN {schema}.outbox_partitions AS f USING (partition_key)
         WHERE f.lease_owner = $1 AND f.lease_epoch = mine.epoch
         ORDER BY f.partition_key
           FOR NO KEY UPDATE OF f) AS held
 WHERE p.partition_key = held.partition_key
RETURNING p.partition_key,
          (SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) FROM pg_control_system() AS c)
