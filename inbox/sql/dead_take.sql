DELETE FROM {schema}.inbox_parked
 WHERE stream_key = $1 AND event_id = $2 AND state = 'dead'
RETURNING parked_id, subject, stream_sequence, envelope, payload
