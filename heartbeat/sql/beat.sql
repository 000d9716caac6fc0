-- One statement for the first beat and every later one: a purged row comes back.
INSERT INTO {schema}.outbox_workers AS w
       (worker_id, hostname, pid, version, started_at, heartbeat_until, state, shape)
VALUES ($1, $2, $3, $4, clock_timestamp(), clock_timestamp() + $5::interval, $6, nullif($7, ''))
ON CONFLICT (worker_id) DO UPDATE
   SET heartbeat_until = clock_timestamp() + $5::interval,
       state = EXCLUDED.state
