-- Moves the watermark, which the same transaction's effects belong to. Never back, never under another owner.
-- $7: when to look again if more is known to come, NULL for at once; $8: there is more in any case.
UPDATE {schema}.projection_streams
   SET applied_version = $4, expected_version = $4 + 1, applied_event = coalesce($5, applied_event), fingerprint = $6,
       applied_at = CASE WHEN applied_version = $4 THEN applied_at ELSE clock_timestamp() END,
       wanted_version = greatest(wanted_version, $4), attempts = 0, last_error = NULL, lease_owner = NULL, lease_until = NULL,
       due_at = CASE WHEN $8 OR wanted_version > $4 THEN clock_timestamp() + coalesce($7::interval, '0') END
 WHERE stream_id = $1 AND lease_owner = $2 AND lease_epoch = $3 AND applied_version = $9 AND $4 >= applied_version
