INSERT INTO {schema}.outbox_audit (actor, action, target, reason, details)
VALUES ($1, $2, $3, nullif($4, ''), $5)
