-- Lanes with nothing in hand are as far as their reader has read.
UPDATE {schema}.inbox_lanes AS l SET position = w.position, position_time = w.position_time
  FROM unnest($3::integer[], $4::bigint[], $5::bigint[], $6::bigint[]) AS w (lane, epoch, position, position_time)
 WHERE l.consumer = $1 AND l.owner = $2 AND l.lane = w.lane AND l.epoch = w.epoch AND l.position < w.position
