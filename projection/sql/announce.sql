-- Versions ($2) that streams ($1) are known to have. Rows that are being applied are locked: they are left out of the
-- answer, and the caller tells them again. A lease, a backoff and a death stay as they are.
WITH bell AS MATERIALIZED (
    SELECT b.stream_id COLLATE "C" AS stream_id, b.version FROM unnest($1::text[], $2::bigint[]) AS b (stream_id, version)),
known AS MATERIALIZED (
    SELECT s.stream_id, b.version FROM {schema}.projection_streams AS s JOIN bell AS b ON b.stream_id = s.stream_id
       FOR UPDATE OF s SKIP LOCKED),
changed AS (
    UPDATE {schema}.projection_streams AS s
       SET wanted_version = greatest(s.wanted_version, k.version),
           due_at = CASE WHEN s.dead_at IS NOT NULL OR s.applied_version >= k.version THEN s.due_at
                         ELSE coalesce(s.due_at, clock_timestamp()) END
      FROM known AS k
     WHERE s.stream_id = k.stream_id
       AND (s.wanted_version < k.version OR s.applied_version < k.version AND s.due_at IS NULL AND s.dead_at IS NULL)),
added AS (
    INSERT INTO {schema}.projection_streams (stream_id, wanted_version, due_at)
    SELECT b.stream_id, b.version, clock_timestamp() FROM bell AS b
     WHERE NOT EXISTS (SELECT FROM {schema}.projection_streams AS s WHERE s.stream_id = b.stream_id)
     ORDER BY b.stream_id -- two processes that get to know the same streams wait for each other's rows: in one order, or forever
    ON CONFLICT DO NOTHING
    RETURNING stream_id)
SELECT stream_id FROM known UNION ALL SELECT stream_id FROM added
