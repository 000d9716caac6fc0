SELECT position, position_time FROM {schema}.inbox_lanes WHERE consumer = $1 ORDER BY position DESC LIMIT 1
