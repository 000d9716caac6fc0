-- A row that is locked is in use by this reader's own transaction, which renews it, or just being taken.
UPDATE {schema}.inbox_lanes AS l
   SET lease_until = clock_timestamp() + $3::interval
  FROM (SELECT f.lane FROM {schema}.inbox_lanes AS f
         WHERE f.consumer = $1 AND f.owner = $2
         ORDER BY f.lane FOR NO KEY UPDATE SKIP LOCKED) AS held
 WHERE l.consumer = $1 AND l.lane = held.lane
