UPDATE {schema}.inbox_consumers SET stream_created = $2 WHERE consumer = $1
