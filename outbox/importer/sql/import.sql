-- query: Present
-- The events of a chunk that exist already. Uses events_stream_version_key.
SELECT e.stream_id, e.stream_version
  FROM unnest(@streams::text[], @versions::bigint[]) AS wanted (stream_id, stream_version)
  JOIN {schema}.events AS e USING (stream_id, stream_version)

-- query: RelaxCommits
SET synchronous_commit = off

-- query: DurableCommit
SET LOCAL synchronous_commit TO DEFAULT

-- query: RestoreCommits
RESET synchronous_commit
