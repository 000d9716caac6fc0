SELECT reader FROM {schema}.inbox_readers WHERE consumer = $1 AND alive_until > clock_timestamp() ORDER BY reader
