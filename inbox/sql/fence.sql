-- First in a reader's transaction: no row means that the lane has another reader.
UPDATE {schema}.inbox_lanes
   SET position = greatest(position, $5), position_time = CASE WHEN $5 > position THEN $7 ELSE position_time END,
       crashes = 0, tries = 0, lease_until = clock_timestamp() + $6::interval
 WHERE consumer = $1 AND lane = $2 AND owner = $3 AND epoch = $4
