-- Read after the stream's lock is held: what it says stays true.
SELECT parked_id, state, attempts, begun, coalesce(reason, ''), subject,
       stream_sequence, envelope, payload
  FROM {schema}.inbox_parked
 WHERE stream_key = $1
 ORDER BY version, parked_id
 LIMIT 1
