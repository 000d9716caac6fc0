SELECT stream, stream_key, version, event_id, generation, partition, sequence, epoch, blocked
  FROM {schema}.inbox_streams
 WHERE consumer = $1 AND stream = ANY ($2::text[])
 ORDER BY stream
   FOR NO KEY UPDATE
