-- The events of a chunk that exist already. Uses events_stream_version_key.
SELECT e.stream_id, e.stream_version
  FROM unnest($1::text[], $2::bigint[]) AS wanted (stream_id, stream_version)
  JOIN {schema}.events AS e USING (stream_id, stream_version)
