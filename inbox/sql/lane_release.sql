UPDATE {schema}.inbox_lanes SET owner = NULL, lease_until = NULL, position = greatest(position, $5),
       position_time = CASE WHEN $5 > position THEN $6 ELSE position_time END,
       tries = CASE WHEN tried_epoch = epoch THEN greatest(tries - 1, 0) ELSE tries END
 WHERE consumer = $1 AND lane = $2 AND owner = $3 AND epoch = $4
