-- Gives a stream back, to be taken again after $4; nothing is counted.
UPDATE {schema}.projection_streams
   SET lease_owner = NULL, lease_until = NULL, due_at = clock_timestamp() + $4::interval
 WHERE stream_id = $1 AND lease_owner = $2 AND lease_epoch = $3
