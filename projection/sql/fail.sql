-- Counts a failure ($4 attempts from now on), or only notes it, and plans the next attempt; none when it is dead.
UPDATE {schema}.projection_streams
   SET attempts = $4, last_error = $5, lease_owner = NULL, lease_until = NULL,
       dead_at = CASE WHEN $7 THEN clock_timestamp() END,
       due_at = CASE WHEN NOT $7 THEN clock_timestamp() + $6::interval END
 WHERE stream_id = $1 AND lease_owner = $2 AND lease_epoch = $3
