-- Takes streams that are due, the longest due first. due_at moves to the lease's end, so that a stream whose owner died
-- comes up again by itself. Rows that are being applied are locked, and skipped whatever their lease says.
WITH due AS MATERIALIZED (
    SELECT stream_id FROM {schema}.projection_streams
     WHERE due_at <= statement_timestamp() AND dead_at IS NULL
     ORDER BY due_at, stream_id LIMIT $2 FOR UPDATE SKIP LOCKED)
UPDATE {schema}.projection_streams AS s
   SET lease_owner = $1, lease_epoch = s.lease_epoch + 1,
       lease_until = clock_timestamp() + $3::interval, due_at = clock_timestamp() + $3::interval
  FROM due
 WHERE s.stream_id = due.stream_id
RETURNING s.stream_id, s.lease_epoch, s.attempts
