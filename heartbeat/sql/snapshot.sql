SELECT worker_id, hostname, pid, version, state, started_at, heartbeat_until,
       heartbeat_until - s.at AS time_left, drain_requested_at, coalesce(shape, ''), s.at
  FROM {schema}.outbox_workers, (SELECT clock_timestamp() AS at) AS s
 ORDER BY worker_id
