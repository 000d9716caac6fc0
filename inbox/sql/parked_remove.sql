DELETE FROM {schema}.inbox_parked WHERE parked_id = $1
