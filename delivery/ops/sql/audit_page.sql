-- The newest rows of the audit below $1.
SELECT a.id, a.at, a.actor, a.action, coalesce(a.reason, ''), a.target, a.details
  FROM {schema}.outbox_audit AS a
 WHERE a.id < $1
 ORDER BY a.id DESC
 LIMIT $2
