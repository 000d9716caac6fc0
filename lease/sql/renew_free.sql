-- As renew.sql, passing over rows that somebody else holds locked. Such a row is
-- not renewed, but still ours as far as this statement's snapshot shows.
WITH mine AS (
       SELECT m.partition_key, m.epoch FROM unnest($3::smallint[], $4::bigint[]) AS m (partition_key, epoch)),
     renewed AS (
       UPDATE {schema}.outbox_partitions AS p
          SET lease_until = clock_timestamp() + $2::interval,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key
                 FROM mine JOIN {schema}.outbox_partitions AS f USING (partition_key)
                WHERE f.lease_owner = $1 AND f.lease_epoch = mine.epoch
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f SKIP LOCKED) AS held
        WHERE p.partition_key = held.partition_key
    RETURNING p.partition_key)
SELECT mine.partition_key, renewed.partition_key IS NOT NULL
  FROM mine
  JOIN {schema}.outbox_partitions AS f USING (partition_key)
  LEFT JOIN renewed USING (partition_key)
 WHERE renewed.partition_key IS NOT NULL OR (f.lease_owner = $1 AND f.lease_epoch = mine.epoch)
