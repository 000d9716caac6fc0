UPDATE {schema}.outbox_workers
   SET drain_requested_at = clock_timestamp()
 WHERE worker_id = $1 AND drain_requested_at IS NULL
