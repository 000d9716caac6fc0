-- Rows are kept for a while after they went stale, so that people can see who died.
DELETE FROM {schema}.outbox_workers
 WHERE heartbeat_until < clock_timestamp() - $1::interval
