-- Before the handler runs for a message that may have ended its process: how often it was begun, this time included. Who
-- begins it again under the same epoch came back from it.
UPDATE {schema}.inbox_lanes
   SET tries = CASE WHEN tried <> $5 THEN 1 WHEN tried_epoch = epoch THEN tries ELSE tries + 1 END, tried = $5, tried_epoch = epoch
 WHERE consumer = $1 AND lane = $2 AND owner = $3 AND epoch = $4
RETURNING tries
