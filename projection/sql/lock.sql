-- The owner locks its stream. No row: the stream has another owner.
SELECT applied_version, expected_version, wanted_version, applied_event
  FROM {schema}.projection_streams
 WHERE stream_id = $1 AND lease_owner = $2 AND lease_epoch = $3
   FOR UPDATE
