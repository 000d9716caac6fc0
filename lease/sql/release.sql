UPDATE {schema}.outbox_partitions AS p
   SET lease_owner = NULL,
       lease_until = NULL,
       updated_at  = clock_timestamp()
  FROM (SELECT f.partition_key
          FROM unnest($2::smallint[], $3::bigint[]) AS mine (partition_key, epoch)
          JOIN {schema}.outbox_partitions AS f USING (partition_key)
         WHERE f.lease_owner = $1 AND f.lease_epoch = mine.epoch
         ORDER BY f.partition_key
           FOR NO KEY UPDATE OF f) AS held
 WHERE p.partition_key = held.partition_key
RETURNING p.partition_key
