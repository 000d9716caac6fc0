SELECT state, count(*), coalesce(extract(epoch FROM clock_timestamp() - min(parked_at)), 0)::float8
  FROM {schema}.inbox_parked
 WHERE consumer = $1
 GROUP BY state
