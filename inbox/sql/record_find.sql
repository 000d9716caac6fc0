-- A statement of its own after the locks: it sees what whoever held them before has committed.
SELECT w.stream, w.version, r.event_id, r.result
  FROM unnest($2::text[], $3::bigint[]) AS w (stream, version)
 CROSS JOIN LATERAL (
       SELECT s.stream_key FROM {schema}.inbox_streams AS s WHERE s.consumer = $1 AND s.stream = w.stream LIMIT 1) AS s
 CROSS JOIN LATERAL (
       SELECT r.event_id, r.result FROM {schema}.inbox_records AS r
        WHERE r.stream_key = s.stream_key AND r.version = w.version LIMIT 1) AS r
