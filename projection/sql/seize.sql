-- For a replay in one transaction: the row's lock, whoever has the lease.
SELECT applied_version, expected_version, wanted_version, applied_event
  FROM {schema}.projection_streams WHERE stream_id = $1 FOR UPDATE
