-- The end of a replay, under the row's lock. The epoch rises: what an owner has under way is refused. A head that is
-- where it was keeps its attempts, its error and its death.
UPDATE {schema}.projection_streams
   SET applied_version = $2::bigint, expected_version = $2::bigint + 1, applied_event = $3, fingerprint = $4,
       wanted_version = greatest($5::bigint, $2::bigint),
       applied_at = CASE WHEN applied_version = $2::bigint THEN applied_at ELSE clock_timestamp() END,
       attempts = CASE WHEN applied_version = $2::bigint THEN attempts ELSE 0 END,
       last_error = CASE WHEN applied_version = $2::bigint THEN last_error END,
       dead_at = CASE WHEN applied_version = $2::bigint THEN dead_at END,
       lease_epoch = lease_epoch + 1, lease_owner = NULL, lease_until = NULL,
       due_at = CASE WHEN $5::bigint <= $2::bigint OR applied_version = $2::bigint AND dead_at IS NOT NULL THEN NULL
                     WHEN applied_version = $2::bigint AND lease_owner IS NULL THEN coalesce(due_at, clock_timestamp())
                     ELSE clock_timestamp() END
 WHERE stream_id = $1
