DELETE FROM {schema}.inbox_records WHERE stream_key = $1
