-- query: Partitions
-- Those of the partitions that exist, all without @partitions, and whether they are paused.
SELECT partition_key, paused_at IS NOT NULL
  FROM {schema}.outbox_partitions
 WHERE @partitions::smallint[] IS NULL OR partition_key = ANY (@partitions)
 ORDER BY partition_key

-- query: Pause
UPDATE {schema}.outbox_partitions
   SET paused_at  = CASE WHEN @paused::boolean THEN clock_timestamp() END,
       updated_at = clock_timestamp()
 WHERE partition_key = ANY (@partitions::smallint[])

-- query: Heads
-- The first rows of a partition that failed or died, and how many of their
-- streams wait behind each, counted up to @behind.
SELECT o.stream_id, o.global_sequence,
       -- include: state
       , o.attempts,
       CASE WHEN isfinite(o.available_at) THEN o.available_at END, o.dead_at, coalesce(o.last_error, ''),
       (SELECT count(*)
          FROM (SELECT FROM {schema}.outbox AS b
                 WHERE b.parked AND b.partition_key = o.partition_key AND b.stream_id = o.stream_id
                   AND b.global_sequence > o.global_sequence
                 LIMIT @behind) AS w)
  FROM {schema}.outbox AS o
 WHERE o.partition_key = @partition
   -- include: troubled
 ORDER BY o.global_sequence
 LIMIT @limit

-- query: Batches
-- The last batches of a partition, by sequence.
SELECT d.id, d.lease_epoch, d.first_sequence, d.last_sequence, d.first_stream_sequence, d.last_stream_sequence,
       d.published_at, d.message_count, coalesce(cardinality(d.skipped), 0)
  FROM {schema}.outbox_deliveries AS d
 WHERE d.partition_key = @partition
 ORDER BY d.first_sequence DESC
 LIMIT @limit

-- query: Worker
-- A worker, and how many take part besides it. A heartbeat that ends later than it can does not show that: its worker may have died
-- before the clock stepped back.
SELECT coalesce(w.hostname, ''), coalesce(w.pid, 0), w.state, w.heartbeat_until > clock_timestamp(), w.drain_requested_at,
       (SELECT count(*) FROM {schema}.outbox_workers AS o
         WHERE o.worker_id <> w.worker_id AND o.state = 'active' AND o.drain_requested_at IS NULL
           AND o.heartbeat_until > clock_timestamp()
           AND (o.heartbeat_ttl IS NULL OR o.heartbeat_until <= clock_timestamp() + o.heartbeat_ttl + @steady::interval))
  FROM {schema}.outbox_workers AS w
 WHERE w.worker_id = @worker

-- query: WorkersLike
-- Workers whose id begins or ends like that, one more than are named.
SELECT w.worker_id
  FROM {schema}.outbox_workers AS w
 WHERE left(w.worker_id::text, length(@part)) = @part OR right(w.worker_id::text, length(@part)) = @part
 ORDER BY w.worker_id
 LIMIT @limit

-- query: Drain
UPDATE {schema}.outbox_workers
   SET drain_requested_at = clock_timestamp()
 WHERE worker_id = @worker AND drain_requested_at IS NULL

-- query: Undrain
UPDATE {schema}.outbox_workers
   SET drain_requested_at = NULL
 WHERE worker_id = @worker AND drain_requested_at IS NOT NULL

-- query: AuditPage
-- The newest rows of the audit below @before.
SELECT a.id, a.at, a.actor, a.action, coalesce(a.reason, ''), a.target, a.details
  FROM {schema}.outbox_audit AS a
 WHERE a.id < @before
 ORDER BY a.id DESC
 LIMIT @limit

-- query: Flows
-- What the newest @batches batches of the last minute hold by topic and type, a second: up to five events of each batch stand for all of
-- it. (The clock in a subquery is asked once, so that the index bounds the scan.)
WITH present AS MATERIALIZED (SELECT clock_timestamp() AS at),
     looked AS MATERIALIZED (
       SELECT d.first_sequence, d.last_sequence, d.sequences, d.message_count, d.published_at
         FROM {schema}.outbox_deliveries AS d
        WHERE d.published_at > (SELECT at FROM present) - interval '1 minute' AND d.published_at < 'infinity' AND d.message_count > 0
        ORDER BY d.published_at DESC
        LIMIT @batches),
     span AS (
       SELECT CASE WHEN count(*) < @batches THEN interval '1 minute'
                   ELSE greatest(interval '0.1 s', (SELECT at FROM present) - min(published_at)) END AS span
         FROM looked)
SELECT coalesce(e.topic, ''), coalesce(e.event_type, ''), sum(s.weight) / extract(epoch FROM span.span)::float8, count(*), span.span
  FROM looked AS d
 CROSS JOIN span
 CROSS JOIN LATERAL (
         SELECT v.sequence, d.message_count::float8 / count(*) OVER () AS weight
           FROM (SELECT DISTINCT CASE WHEN d.sequences IS NULL THEN d.first_sequence + (d.last_sequence - d.first_sequence) * n / 4
                                      ELSE d.sequences[1 + (cardinality(d.sequences) - 1) * n / 4] END AS sequence
                   FROM generate_series(0, 4) AS n) AS v) AS s
  LEFT JOIN LATERAL (SELECT {topic} AS topic, e.event_type::text FROM {events} AS e WHERE e.sequence = s.sequence LIMIT 1) AS e ON true
 GROUP BY 1, 2, span.span

-- query: Rights
-- What an operator needs and this role does not have. {events} may be a view,
-- and lack some of the columns.
WITH needed (purpose, privilege, relation, columns) AS (
       VALUES
         ('look', 'SELECT', '{schema}.outbox', NULL),
         ('look', 'SELECT', '{schema}.outbox_deliveries', NULL),
         ('look', 'SELECT', '{schema}.outbox_partitions', NULL),
         ('look', 'SELECT', '{schema}.outbox_workers', NULL),
         ('look', 'SELECT', '{events}', '{sequence,event_id,stream_id,stream_version,event_type,topic,tenant_id,metadata,audit_only,occurred_at,recorded_at}'::name[]),
         ('act', 'UPDATE', '{schema}.outbox', NULL),
         ('act', 'DELETE', '{schema}.outbox', NULL),
         ('act', 'INSERT', '{schema}.outbox_deliveries', NULL),
         ('act', 'INSERT', '{schema}.outbox_audit', NULL),
         ('act', 'SELECT', '{schema}.outbox_throughput', NULL),
         ('act', 'INSERT', '{schema}.outbox_throughput', NULL),
         ('act', 'UPDATE', '{schema}.outbox_throughput', NULL),
         ('act', 'UPDATE', '{schema}.outbox_partitions', '{paused_at,updated_at}'),
         ('act', 'UPDATE', '{schema}.outbox_workers', '{drain_requested_at}'),
         ('audit', 'SELECT', '{schema}.outbox_audit', NULL),
         ('payload', 'SELECT', '{events}', ARRAY['payload']),
         ('replays', 'SELECT', '{schema}.outbox_replays', NULL),
         ('replay', 'INSERT', '{schema}.outbox_replays', NULL),
         ('replay', 'UPDATE', '{schema}.outbox_replays', NULL),
         ('replay', 'SELECT', '{schema}.outbox_replay_sequences', NULL),
         ('replay', 'INSERT', '{schema}.outbox_replay_sequences', NULL),
         ('replay', 'DELETE', '{schema}.outbox_replay_sequences', NULL),
         ('replay', 'SELECT', '{schema}.outbox_audit', NULL),
         ('replay', 'INSERT', '{schema}.outbox', NULL),
         ('resize', 'UPDATE', '{schema}.outbox_settings', '{partition_count,generation,frozen_at,frozen_by,resized_at,resized_delivery}'),
         ('resize', 'INSERT', '{schema}.outbox_partitions', NULL),
         ('resize', 'UPDATE', '{schema}.outbox_partitions', NULL),
         ('resize', 'DELETE', '{schema}.outbox_partitions', NULL),
         ('resize', 'INSERT', '{schema}.outbox_former_partitions', NULL),
         ('resize', 'DELETE', '{schema}.outbox_former_partitions', NULL))
SELECT n.purpose, n.privilege || coalesce(' (' || there.names || ')', '') || ' ON ' || n.relation
  FROM needed AS n,
       LATERAL (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS names,
                       bool_and(has_column_privilege(a.attrelid, a.attnum, n.privilege)) AS held
                  FROM pg_attribute AS a
                 WHERE a.attrelid = n.relation::regclass AND a.attname = ANY (n.columns) AND NOT a.attisdropped) AS there
 WHERE NOT CASE WHEN n.columns IS NULL THEN has_table_privilege(n.relation, n.privilege) ELSE there.held END
