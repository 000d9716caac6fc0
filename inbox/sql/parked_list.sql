SELECT p.parked_id, p.state, p.attempts, p.due_at, p.parked_at, coalesce(p.reason, ''), p.subject, p.stream_sequence, p.envelope, p.payload
  FROM {schema}.inbox_parked AS p
  JOIN {schema}.inbox_streams AS s USING (stream_key)
 WHERE p.consumer = $1 AND p.state = $2 AND p.parked_id > $3 AND ($4 = '' OR s.stream = $4)
 ORDER BY p.parked_id
 LIMIT $5
