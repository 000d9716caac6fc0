DELETE FROM {schema}.outbox_workers WHERE worker_id = $1
