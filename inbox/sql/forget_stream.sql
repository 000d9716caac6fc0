UPDATE {schema}.inbox_streams
   SET version = 0, event_id = NULL, generation = 0, partition = -1, sequence = 0, epoch = 0, updated_at = clock_timestamp()
 WHERE stream_key = $1
