-- A stream whose first parked message is due. SKIP LOCKED: somebody else is at it.
SELECT s.stream_key
  FROM {schema}.inbox_parked AS p
  JOIN {schema}.inbox_streams AS s USING (stream_key)
 WHERE p.consumer = $1 AND p.due_at <= clock_timestamp()
   AND NOT EXISTS (SELECT FROM {schema}.inbox_parked AS e
                    WHERE e.stream_key = p.stream_key AND (e.version, e.parked_id) < (p.version, p.parked_id))
 ORDER BY p.due_at
 LIMIT 1
   FOR NO KEY UPDATE OF s SKIP LOCKED
