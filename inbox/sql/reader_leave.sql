DELETE FROM {schema}.inbox_readers
 WHERE consumer = $1 AND (reader = $2 OR alive_until < clock_timestamp() - interval '1 hour')
