SELECT stream, stream_key, version, event_id, generation, partition, sequence, epoch, blocked
  FROM {schema}.inbox_streams
 WHERE stream_key = $1
   FOR NO KEY UPDATE
