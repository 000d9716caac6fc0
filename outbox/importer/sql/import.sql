-- query: Present
-- The events of a chunk that exist already. Uses events_stream_version_key.
SELECT e.stream_id, e.stream_version
  FROM unnest(@streams::text[], @versions::bigint[]) AS wanted (stream_id, stream_version)
  JOIN {schema}.events AS e USING (stream_id, stream_version)

-- query: RelaxCommit
-- For this transaction: a session's setting stays with it where a pooler hands it to others.
SET LOCAL synchronous_commit = off
