SELECT stream_key FROM {schema}.inbox_parked WHERE consumer = $1 AND event_id = $2 AND state = 'dead' LIMIT 1
