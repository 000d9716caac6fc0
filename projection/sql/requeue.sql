-- Dead streams ($1, or all) are due again with no attempts, the longest dead first.
WITH dead AS MATERIALIZED (
    SELECT stream_id, dead_at FROM {schema}.projection_streams
     WHERE dead_at IS NOT NULL AND ($1::text IS NULL OR stream_id = $1)
     ORDER BY dead_at, stream_id LIMIT $2 FOR UPDATE),
changed AS (
    UPDATE {schema}.projection_streams AS s
       SET dead_at = NULL, attempts = 0, last_error = NULL, due_at = clock_timestamp()
      FROM dead AS d WHERE s.stream_id = d.stream_id
    RETURNING s.stream_id)
SELECT d.stream_id FROM dead AS d JOIN changed AS c ON c.stream_id = d.stream_id ORDER BY d.dead_at, d.stream_id
