-- The stream that is to be tried next among those that failed.
SELECT stream_id, 'failed', applied_version, expected_version, wanted_version, attempts, due_at, dead_at, applied_at,
       lease_owner, lease_until, coalesce(last_error, '')
  FROM {schema}.projection_streams
 WHERE dead_at IS NULL AND due_at IS NOT NULL AND (attempts > 0 OR last_error IS NOT NULL)
   AND (lease_until IS NULL OR lease_until <= statement_timestamp())
 ORDER BY due_at, stream_id LIMIT 1
