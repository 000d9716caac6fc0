SELECT lane, epoch FROM {schema}.inbox_lanes WHERE consumer = $1 AND owner = $2
