SELECT lanes, stream, stream_created FROM {schema}.inbox_consumers WHERE consumer = $1 FOR NO KEY UPDATE
