-- Free lanes, at most $4 of them; those that this reader knows it has are no candidates. One that another did not give back
-- may have a message that ends whoever begins it.
UPDATE {schema}.inbox_lanes AS l
   SET owner = $2, epoch = l.epoch + 1, lease_until = clock_timestamp() + $3::interval,
       crashes = l.crashes + CASE WHEN l.owner <> $2 THEN 1 ELSE 0 END
  FROM (SELECT f.lane FROM {schema}.inbox_lanes AS f
         WHERE f.consumer = $1 AND f.lane <> ALL ($5::integer[])
           AND (f.owner IS NULL OR f.owner = $2 OR f.lease_until < clock_timestamp())
         ORDER BY f.lane LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED) AS free
 WHERE l.consumer = $1 AND l.lane = free.lane
RETURNING l.lane, l.epoch, l.position, l.position_time, l.crashes > 1 OR l.tries > 0
