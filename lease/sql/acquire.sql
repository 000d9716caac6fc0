-- Takes the free ones among the partitions asked for. A row that still names
-- this worker is free too: the process has given that lease up before it asks.
-- SKIP LOCKED: a row that somebody else is taking now will be theirs.
UPDATE {schema}.outbox_partitions AS p
   SET lease_owner = $1,
       lease_epoch = p.lease_epoch + 1,
       lease_until = clock_timestamp() + $2::interval,
       updated_at  = clock_timestamp()
 WHERE p.partition_key IN (
         SELECT f.partition_key
           FROM {schema}.outbox_partitions AS f
          WHERE f.partition_key = ANY ($3::smallint[])
            AND (f.lease_owner IS NULL OR f.lease_owner = $1 OR f.lease_until < clock_timestamp())
          ORDER BY f.partition_key
            FOR NO KEY UPDATE SKIP LOCKED)
RETURNING p.partition_key, p.lease_epoch, p.delivered
