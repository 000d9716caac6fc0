-- query: Beat
-- One statement for the first beat and every later one: a purged row comes back, that of
-- a drained worker with its request to drain. A condition keeps its time while its reason
-- stays.
INSERT INTO {schema}.outbox_workers AS w
       (worker_id, hostname, pid, version, started_at, heartbeat_until, heartbeat_ttl, state, shape, canary,
        condition, condition_detail, condition_since, drain_requested_at)
VALUES (@worker, @hostname, @pid, @version, clock_timestamp(), clock_timestamp() + @ttl::interval, @ttl::interval, @state, nullif(@shape, ''), nullif(@canary::text, ''),
        nullif(@reason::text, ''), nullif(@detail::text, ''),
        CASE WHEN @reason::text <> '' THEN clock_timestamp() - @age::interval END,
        CASE WHEN @state = 'draining' THEN clock_timestamp() END)
ON CONFLICT (worker_id) DO UPDATE
   SET heartbeat_until  = clock_timestamp() + @ttl::interval,
       heartbeat_ttl    = @ttl::interval,
       state            = EXCLUDED.state,
       canary           = EXCLUDED.canary,
       condition        = EXCLUDED.condition,
       condition_detail = EXCLUDED.condition_detail,
       condition_since  = CASE WHEN w.condition = EXCLUDED.condition THEN w.condition_since ELSE EXCLUDED.condition_since END

-- query: Leave
DELETE FROM {schema}.outbox_workers WHERE worker_id = @worker

-- query: Purge
-- Stale rows stay for a while, so that people can see who died.
DELETE FROM {schema}.outbox_workers
 WHERE heartbeat_until < clock_timestamp() - @after::interval

-- query: Snapshot
SELECT worker_id, coalesce(hostname, ''), coalesce(pid, 0), coalesce(version, ''), state, started_at, heartbeat_until, heartbeat_ttl,
       drain_requested_at, coalesce(shape, ''), coalesce(canary, ''),
       coalesce(condition, ''), coalesce(condition_detail, ''), condition_since, s.at
  FROM {schema}.outbox_workers, (SELECT clock_timestamp() AS at) AS s
 ORDER BY worker_id
