SELECT w.stream, w.version, p.event_id
  FROM unnest($2::text[], $3::bigint[], $4::uuid[]) AS w (stream, version, event_id)
 CROSS JOIN LATERAL (
       SELECT s.stream_key FROM {schema}.inbox_streams AS s WHERE s.consumer = $1 AND s.stream = w.stream AND s.blocked LIMIT 1) AS s
 CROSS JOIN LATERAL (
       SELECT p.event_id FROM {schema}.inbox_parked AS p
        WHERE p.stream_key = s.stream_key AND p.version = w.version AND p.event_id = w.event_id LIMIT 1) AS p
