-- A worker, and how many take part besides it.
SELECT coalesce(w.hostname, ''), coalesce(w.pid, 0), w.state, w.heartbeat_until > clock_timestamp(), w.drain_requested_at,
       (SELECT count(*) FROM {schema}.outbox_workers AS o
         WHERE o.worker_id <> w.worker_id AND o.state = 'active' AND o.drain_requested_at IS NULL
           AND o.heartbeat_until > clock_timestamp())
  FROM {schema}.outbox_workers AS w
 WHERE w.worker_id = $1
