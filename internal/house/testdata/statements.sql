-- Every statement as it is sent, by package and file; `make sql` writes this. The files of each package say why.

-- delivery/ops/sql/*.sql

/* ops.Now */ SELECT clock_timestamp(), coalesce(s.resized_at::text, '') FROM "public".outbox_settings AS s;

/* ops.Selected */ SELECT w.partition_key, w.global_sequence, w.chosen, w.nth = $1
  FROM (SELECT o.partition_key, o.global_sequence,
               row_number() OVER (ORDER BY o.partition_key, o.global_sequence) AS nth,
               coalesce(
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
                        = $2
                        AND (o.dead_at IS NULL OR o.dead_at NOT BETWEEN $3 AND clock_timestamp())
                         AND ($4::text IS NULL OR o.stream_id = $4)
                         AND ($5::text IS NULL OR o.topic = $5)
                         AND ($6::text IS NULL OR strpos(o.last_error, $6) > 0)
                         AND ($7::text IS NULL OR
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
                              = $7)
                         AND ($8::text IS NULL AND $9::text IS NULL AND $10::timestamptz IS NULL AND $11::timestamptz IS NULL
                              OR (SELECT ($8 IS NULL OR e.event_type::text = $8)
                                         AND ($9 IS NULL OR e.tenant_id::text = $9)
                                         AND ($10 IS NULL OR e.recorded_at >= $10)
                                         AND ($11 IS NULL OR e.recorded_at < $11)
                                    FROM "public"."events" AS e
                                   WHERE e.sequence = o.global_sequence))
                        , false) AS chosen
          FROM (SELECT o.*
                  FROM "public".outbox AS o
                 WHERE (o.partition_key, o.global_sequence) > ($12::smallint, $13::bigint)
                   AND o.partition_key <= $14
                   AND o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
                 ORDER BY o.partition_key, o.global_sequence
                 LIMIT $1) AS o) AS w
 WHERE w.chosen OR w.nth = $1
 ORDER BY w.partition_key, w.global_sequence;

/* ops.SelectedParked */ SELECT w.partition_key, w.global_sequence, w.chosen, w.nth = $1
  FROM (SELECT o.partition_key, o.global_sequence,
               row_number() OVER (ORDER BY o.partition_key, o.global_sequence) AS nth,
               coalesce(
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
                        = $2
                        AND (o.dead_at IS NULL OR o.dead_at NOT BETWEEN $3 AND clock_timestamp())
                         AND ($4::text IS NULL OR o.stream_id = $4)
                         AND ($5::text IS NULL OR o.topic = $5)
                         AND ($6::text IS NULL OR strpos(o.last_error, $6) > 0)
                         AND ($7::text IS NULL OR
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
                              = $7)
                         AND ($8::text IS NULL AND $9::text IS NULL AND $10::timestamptz IS NULL AND $11::timestamptz IS NULL
                              OR (SELECT ($8 IS NULL OR e.event_type::text = $8)
                                         AND ($9 IS NULL OR e.tenant_id::text = $9)
                                         AND ($10 IS NULL OR e.recorded_at >= $10)
                                         AND ($11 IS NULL OR e.recorded_at < $11)
                                    FROM "public"."events" AS e
                                   WHERE e.sequence = o.global_sequence))
                        , false) AS chosen
          FROM (SELECT o.*
                  FROM "public".outbox AS o
                 WHERE (o.partition_key, o.global_sequence) > ($12::smallint, $13::bigint)
                   AND o.partition_key <= $14
                   AND o.parked
                 ORDER BY o.partition_key, o.global_sequence
                 LIMIT $1) AS o) AS w
 WHERE w.chosen OR w.nth = $1
 ORDER BY w.partition_key, w.global_sequence;

/* ops.Causes */ WITH looked AS MATERIALIZED (
       SELECT o.*
         FROM "public".outbox AS o
        WHERE (o.partition_key, o.global_sequence) > ($1::smallint, $2::bigint)
          AND o.partition_key <= $3
                   AND o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
        ORDER BY o.partition_key, o.global_sequence
        LIMIT $4),
     chosen AS MATERIALIZED (
       SELECT o.*, coalesce(
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
              , '') AS family, coalesce(o.failures -> -1 ->> 'class', '') AS class
         FROM looked AS o
        WHERE o.dead_at NOT BETWEEN $5 AND clock_timestamp()
                         AND ($6::text IS NULL OR o.stream_id = $6)
                         AND ($7::text IS NULL OR o.topic = $7)
                         AND ($8::text IS NULL OR strpos(o.last_error, $8) > 0)
                         AND ($9::text IS NULL OR
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
                              = $9)
                         AND ($10::text IS NULL AND $11::text IS NULL AND $12::timestamptz IS NULL AND $13::timestamptz IS NULL
                              OR (SELECT ($10 IS NULL OR e.event_type::text = $10)
                                         AND ($11 IS NULL OR e.tenant_id::text = $11)
                                         AND ($12 IS NULL OR e.recorded_at >= $12)
                                         AND ($13 IS NULL OR e.recorded_at < $13)
                                    FROM "public"."events" AS e
                                   WHERE e.sequence = o.global_sequence))
       )
SELECT c.topic, coalesce(e.event_type, ''), c.family, count(*), min(c.class), max(c.class), min(c.dead_at), max(c.dead_at),
       min(c.global_sequence), (array_agg(left(coalesce(c.last_error, ''), 300) ORDER BY c.global_sequence))[1], NULL::smallint
  FROM chosen AS c
  LEFT JOIN LATERAL (SELECT e.event_type::text FROM "public"."events" AS e WHERE e.sequence = c.global_sequence LIMIT 1) AS e ON true
 GROUP BY 1, 2, 3
 UNION ALL
(SELECT '', '', '', 0, '', '', NULL, NULL, w.global_sequence, '', w.partition_key
   FROM looked AS w
  ORDER BY w.partition_key, w.global_sequence
 OFFSET $4 - 1);

/* ops.Requeue */ WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error
         FROM unnest($1::smallint[], $2::bigint[]) AS s (partition_key, sequence)
         JOIN "public".outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
              = $3
          FOR UPDATE OF o),
     changed AS (
       UPDATE "public".outbox AS o
          SET attempts     = 0,
              generation   = o.generation + 1,
              dead_at      = NULL,
              last_error   = NULL,
              available_at = clock_timestamp(),
              blocked      = EXISTS (SELECT FROM "public".outbox AS f
                                      WHERE f.parked
                                        AND f.partition_key = o.partition_key
                                        AND f.stream_id = o.stream_id
                                        AND f.global_sequence < o.global_sequence)
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM chosen
 ORDER BY partition_key, global_sequence;

/* ops.Settle */ WITH gone AS (
       DELETE FROM "public".outbox AS o
        USING unnest($1::smallint[], $2::bigint[], $3::timestamptz[]) AS s (partition_key, sequence, held)
        WHERE o.parked AND o.partition_key = s.partition_key AND o.global_sequence = s.sequence
          AND
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
              = $4 AND ($4 <> 'scheduled' OR o.available_at = s.held AND s.held > clock_timestamp() + interval '1 minute')
    RETURNING o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error),
     history AS (
       INSERT INTO "public".outbox_deliveries
              (partition_key, lease_epoch, first_sequence, last_sequence, sequences, stream_sequences,
               skipped, discarded, attempts, generations, published_at, message_count)
       SELECT gone.partition_key, coalesce(max(l.lease_epoch), 0), min(global_sequence), max(global_sequence),
              CASE WHEN max(global_sequence) - min(global_sequence) + 1 > count(*)
                   THEN array_agg(global_sequence ORDER BY global_sequence) END,
              array_fill(NULL::bigint, ARRAY[count(*)::int]),
              array_agg(global_sequence ORDER BY global_sequence),
              CASE WHEN $5::boolean THEN array_agg(global_sequence ORDER BY global_sequence) END,
              jsonb_object_agg(global_sequence, attempts) FILTER (WHERE attempts > 0),
              jsonb_object_agg(global_sequence, generation) FILTER (WHERE generation > 0),
              clock_timestamp(), 0
         FROM gone LEFT JOIN "public".outbox_partitions AS l ON l.partition_key = gone.partition_key
        GROUP BY gone.partition_key),
     counted AS (
       INSERT INTO "public".outbox_throughput AS t (minute, partition_key, skipped)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, count(*)
         FROM gone
        GROUP BY partition_key
       ON CONFLICT (minute, partition_key) DO UPDATE SET skipped = t.skipped + EXCLUDED.skipped)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM gone
 ORDER BY partition_key, global_sequence;

/* ops.Waiting */ SELECT count(*)
  FROM unnest($1::smallint[], $2::bigint[], $3::text[]) AS s (partition_key, sequence, stream_id)
 WHERE EXISTS (SELECT FROM "public".outbox AS d
                WHERE d.parked
                  AND d.partition_key = s.partition_key
                  AND d.stream_id = s.stream_id
                  AND d.global_sequence < s.sequence
                  AND d.dead_at IS NOT NULL);

/* ops.Hold */ WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, coalesce(o.scheduled_for, o.available_at) AS until
         FROM unnest($1::smallint[], $2::bigint[]) AS s (partition_key, sequence)
         JOIN "public".outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
              = 'scheduled'
          FOR UPDATE OF o),
     held AS (
       UPDATE "public".outbox AS o
          SET available_at = greatest(o.available_at, clock_timestamp() + interval '5 minutes')
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence
    RETURNING o.partition_key, o.global_sequence, chosen.until, o.available_at)
SELECT partition_key, global_sequence, CASE WHEN isfinite(until) THEN until END, available_at
  FROM held;

/* ops.Unhold */ UPDATE "public".outbox AS o
   SET available_at = s.available_at
  FROM unnest($1::smallint[], $2::bigint[], $3::timestamptz[], $4::timestamptz[]) AS s (partition_key, sequence, held, available_at)
 WHERE o.parked AND o.partition_key = s.partition_key AND o.global_sequence = s.sequence AND o.available_at = s.held;

/* ops.Move */ WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error
         FROM unnest($1::smallint[], $2::bigint[], $3::timestamptz[]) AS s (partition_key, sequence, held)
         JOIN "public".outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND o.available_at = s.held AND s.held > clock_timestamp() + interval '1 minute'
          FOR UPDATE OF o),
     moved AS (
       UPDATE "public".outbox AS o
          SET available_at = $4, scheduled_for = $4
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM chosen
 ORDER BY partition_key, global_sequence;

/* ops.Partitions */ SELECT partition_key, paused_at IS NOT NULL
  FROM "public".outbox_partitions
 WHERE $1::smallint[] IS NULL OR partition_key = ANY ($1)
 ORDER BY partition_key;

/* ops.Pause */ UPDATE "public".outbox_partitions
   SET paused_at  = CASE WHEN $1::boolean THEN clock_timestamp() END,
       updated_at = clock_timestamp()
 WHERE partition_key = ANY ($2::smallint[]);

/* ops.Heads */ SELECT o.stream_id, o.global_sequence,
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
       , o.attempts,
       CASE WHEN isfinite(o.available_at) THEN o.available_at END, o.dead_at, coalesce(o.last_error, ''),
       (SELECT count(*)
          FROM (SELECT FROM "public".outbox AS b
                 WHERE b.parked AND b.partition_key = o.partition_key AND b.stream_id = o.stream_id
                   AND b.global_sequence > o.global_sequence
                 LIMIT $1) AS w)
  FROM "public".outbox AS o
 WHERE o.partition_key = $2
                   AND o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
 ORDER BY o.global_sequence
 LIMIT $3;

/* ops.Batches */ SELECT d.id, d.lease_epoch, d.first_sequence, d.last_sequence, d.first_stream_sequence, d.last_stream_sequence,
       d.published_at, d.message_count, coalesce(cardinality(d.skipped), 0)
  FROM "public".outbox_deliveries AS d
 WHERE d.partition_key = $1
 ORDER BY d.first_sequence DESC
 LIMIT $2;

/* ops.Worker */ SELECT coalesce(w.hostname, ''), coalesce(w.pid, 0), w.state, w.heartbeat_until > clock_timestamp(), w.drain_requested_at,
       (SELECT count(*) FROM "public".outbox_workers AS o
         WHERE o.worker_id <> w.worker_id AND o.state = 'active' AND o.drain_requested_at IS NULL
           AND o.heartbeat_until > clock_timestamp()
           AND (o.heartbeat_ttl IS NULL OR o.heartbeat_until <= clock_timestamp() + o.heartbeat_ttl + $1::interval))
  FROM "public".outbox_workers AS w
 WHERE w.worker_id = $2;

/* ops.WorkersLike */ SELECT w.worker_id
  FROM "public".outbox_workers AS w
 WHERE left(w.worker_id::text, length($1)) = $1 OR right(w.worker_id::text, length($1)) = $1
 ORDER BY w.worker_id
 LIMIT $2;

/* ops.Drain */ UPDATE "public".outbox_workers
   SET drain_requested_at = clock_timestamp()
 WHERE worker_id = $1 AND drain_requested_at IS NULL;

/* ops.Undrain */ UPDATE "public".outbox_workers
   SET drain_requested_at = NULL
 WHERE worker_id = $1 AND drain_requested_at IS NOT NULL;

/* ops.AuditPage */ SELECT a.id, a.at, a.actor, a.action, coalesce(a.reason, ''), a.target, a.details
  FROM "public".outbox_audit AS a
 WHERE a.id < $1
 ORDER BY a.id DESC
 LIMIT $2;

/* ops.Flows */ WITH present AS MATERIALIZED (SELECT clock_timestamp() AS at),
     looked AS MATERIALIZED (
       SELECT d.first_sequence, d.last_sequence, d.sequences, d.message_count, d.published_at
         FROM "public".outbox_deliveries AS d
        WHERE d.published_at > (SELECT at FROM present) - interval '1 minute' AND d.published_at < 'infinity' AND d.message_count > 0
        ORDER BY d.published_at DESC
        LIMIT $1),
     span AS (
       SELECT CASE WHEN count(*) < $1 THEN interval '1 minute'
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
  LEFT JOIN LATERAL (SELECT e.topic AS topic, e.event_type::text FROM "public"."events" AS e WHERE e.sequence = s.sequence LIMIT 1) AS e ON true
 GROUP BY 1, 2, span.span;

/* ops.Rights */ WITH needed (purpose, privilege, relation, columns) AS (
       VALUES
         ('look', 'SELECT', '"public".outbox', NULL),
         ('look', 'SELECT', '"public".outbox_deliveries', NULL),
         ('look', 'SELECT', '"public".outbox_partitions', NULL),
         ('look', 'SELECT', '"public".outbox_workers', NULL),
         ('look', 'SELECT', '"public"."events"', '{sequence,event_id,stream_id,stream_version,event_type,topic,tenant_id,metadata,audit_only,occurred_at,recorded_at}'::name[]),
         ('act', 'UPDATE', '"public".outbox', NULL),
         ('act', 'DELETE', '"public".outbox', NULL),
         ('act', 'INSERT', '"public".outbox_deliveries', NULL),
         ('act', 'INSERT', '"public".outbox_audit', NULL),
         ('act', 'SELECT', '"public".outbox_throughput', NULL),
         ('act', 'INSERT', '"public".outbox_throughput', NULL),
         ('act', 'UPDATE', '"public".outbox_throughput', NULL),
         ('act', 'UPDATE', '"public".outbox_partitions', '{paused_at,updated_at}'),
         ('act', 'UPDATE', '"public".outbox_workers', '{drain_requested_at}'),
         ('audit', 'SELECT', '"public".outbox_audit', NULL),
         ('payload', 'SELECT', '"public"."events"', ARRAY['payload']),
         ('replays', 'SELECT', '"public".outbox_replays', NULL),
         ('replay', 'INSERT', '"public".outbox_replays', NULL),
         ('replay', 'UPDATE', '"public".outbox_replays', NULL),
         ('replay', 'SELECT', '"public".outbox_replay_sequences', NULL),
         ('replay', 'INSERT', '"public".outbox_replay_sequences', NULL),
         ('replay', 'DELETE', '"public".outbox_replay_sequences', NULL),
         ('replay', 'SELECT', '"public".outbox_audit', NULL),
         ('replay', 'INSERT', '"public".outbox', NULL),
         ('resize', 'UPDATE', '"public".outbox_settings', '{partition_count,generation,frozen_at,frozen_by,resized_at,resized_delivery}'),
         ('resize', 'INSERT', '"public".outbox_partitions', NULL),
         ('resize', 'UPDATE', '"public".outbox_partitions', NULL),
         ('resize', 'DELETE', '"public".outbox_partitions', NULL),
         ('resize', 'INSERT', '"public".outbox_former_partitions', NULL),
         ('resize', 'DELETE', '"public".outbox_former_partitions', NULL))
SELECT n.purpose, n.privilege || coalesce(' (' || there.names || ')', '') || ' ON ' || n.relation
  FROM needed AS n,
       LATERAL (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS names,
                       bool_and(has_column_privilege(a.attrelid, a.attnum, n.privilege)) AS held
                  FROM pg_attribute AS a
                 WHERE a.attrelid = n.relation::regclass AND a.attname = ANY (n.columns) AND NOT a.attisdropped) AS there
 WHERE NOT CASE WHEN n.columns IS NULL THEN has_table_privilege(n.relation, n.privilege) ELSE there.held END;

/* ops.QueueKeys */ SELECT partition_key FROM "public".outbox_partitions
 UNION
SELECT p::smallint FROM "public".outbox_settings AS s, generate_series(0, s.partition_count - 1) AS p;

/* ops.HistoryKeys */ WITH RECURSIVE k (partition_key) AS (
       (SELECT d.partition_key FROM "public".outbox_deliveries AS d ORDER BY d.partition_key LIMIT 1)
        UNION ALL
       SELECT (SELECT d.partition_key
                 FROM "public".outbox_deliveries AS d
                WHERE d.partition_key > k.partition_key
                ORDER BY d.partition_key
                LIMIT 1)
         FROM k
        WHERE k.partition_key IS NOT NULL)
SELECT k.partition_key,
       (SELECT d.first_sequence
          FROM "public".outbox_deliveries AS d
         WHERE d.partition_key = k.partition_key
         ORDER BY d.first_sequence
         LIMIT 1)
  FROM k
 WHERE k.partition_key IS NOT NULL;

/* ops.ReadyUp */ SELECT l.lane, w.global_sequence, w.chosen, w.nth = $1
  FROM unnest($2::smallint[], $3::bigint[]) WITH ORDINALITY AS l (partition_key, after, lane)
 CROSS JOIN LATERAL (
         SELECT o.global_sequence,
                row_number() OVER (ORDER BY o.global_sequence ASC)
                AS nth,
                coalesce(
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
                         = ANY ($4::text[])
                         AND ($5::text IS NULL OR o.stream_id = $5)
                         AND ($6::text IS NULL OR o.topic = $6)
                         AND ($7::text IS NULL OR strpos(o.last_error, $7) > 0)
                         AND ($8::text IS NULL OR
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
                              = $8)
                         AND ($9::text IS NULL AND $10::text IS NULL AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
                              OR (SELECT ($9 IS NULL OR e.event_type::text = $9)
                                         AND ($10 IS NULL OR e.tenant_id::text = $10)
                                         AND ($11 IS NULL OR e.recorded_at >= $11)
                                         AND ($12 IS NULL OR e.recorded_at < $12)
                                    FROM "public"."events" AS e
                                   WHERE e.sequence = o.global_sequence))
                         , false) AS chosen
           FROM (SELECT o.*
                   FROM "public".outbox AS o
                  WHERE o.partition_key = l.partition_key
                    AND o.global_sequence > l.after
                    AND NOT o.parked
                  ORDER BY o.global_sequence ASC
                  LIMIT $1) AS o) AS w
 WHERE w.chosen OR w.nth = $1;

/* ops.ReadyDown */ SELECT l.lane, w.global_sequence, w.chosen, w.nth = $1
  FROM unnest($2::smallint[], $3::bigint[]) WITH ORDINALITY AS l (partition_key, after, lane)
 CROSS JOIN LATERAL (
         SELECT o.global_sequence,
                row_number() OVER (ORDER BY o.global_sequence DESC)
                AS nth,
                coalesce(
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
                         = ANY ($4::text[])
                         AND ($5::text IS NULL OR o.stream_id = $5)
                         AND ($6::text IS NULL OR o.topic = $6)
                         AND ($7::text IS NULL OR strpos(o.last_error, $7) > 0)
                         AND ($8::text IS NULL OR
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
                              = $8)
                         AND ($9::text IS NULL AND $10::text IS NULL AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
                              OR (SELECT ($9 IS NULL OR e.event_type::text = $9)
                                         AND ($10 IS NULL OR e.tenant_id::text = $10)
                                         AND ($11 IS NULL OR e.recorded_at >= $11)
                                         AND ($12 IS NULL OR e.recorded_at < $12)
                                    FROM "public"."events" AS e
                                   WHERE e.sequence = o.global_sequence))
                         , false) AS chosen
           FROM (SELECT o.*
                   FROM "public".outbox AS o
                  WHERE o.partition_key = l.partition_key
                    AND o.global_sequence < l.after
                    AND NOT o.parked
                  ORDER BY o.global_sequence DESC
                  LIMIT $1) AS o) AS w
 WHERE w.chosen OR w.nth = $1;

/* ops.ParkedUp */ SELECT l.lane, w.global_sequence, w.chosen, w.nth = $1
  FROM unnest($2::smallint[], $3::bigint[]) WITH ORDINALITY AS l (partition_key, after, lane)
 CROSS JOIN LATERAL (
         SELECT o.global_sequence,
                row_number() OVER (ORDER BY o.global_sequence ASC)
                AS nth,
                coalesce(
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
                         = ANY ($4::text[])
                         AND ($5::text IS NULL OR o.stream_id = $5)
                         AND ($6::text IS NULL OR o.topic = $6)
                         AND ($7::text IS NULL OR strpos(o.last_error, $7) > 0)
                         AND ($8::text IS NULL OR
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
                              = $8)
                         AND ($9::text IS NULL AND $10::text IS NULL AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
                              OR (SELECT ($9 IS NULL OR e.event_type::text = $9)
                                         AND ($10 IS NULL OR e.tenant_id::text = $10)
                                         AND ($11 IS NULL OR e.recorded_at >= $11)
                                         AND ($12 IS NULL OR e.recorded_at < $12)
                                    FROM "public"."events" AS e
                                   WHERE e.sequence = o.global_sequence))
                         , false) AS chosen
           FROM (SELECT o.*
                   FROM "public".outbox AS o
                  WHERE o.partition_key = l.partition_key
                    AND o.global_sequence > l.after
                    AND o.parked
                  ORDER BY o.global_sequence ASC
                  LIMIT $1) AS o) AS w
 WHERE w.chosen OR w.nth = $1;

/* ops.ParkedDown */ SELECT l.lane, w.global_sequence, w.chosen, w.nth = $1
  FROM unnest($2::smallint[], $3::bigint[]) WITH ORDINALITY AS l (partition_key, after, lane)
 CROSS JOIN LATERAL (
         SELECT o.global_sequence,
                row_number() OVER (ORDER BY o.global_sequence DESC)
                AS nth,
                coalesce(
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
                         = ANY ($4::text[])
                         AND ($5::text IS NULL OR o.stream_id = $5)
                         AND ($6::text IS NULL OR o.topic = $6)
                         AND ($7::text IS NULL OR strpos(o.last_error, $7) > 0)
                         AND ($8::text IS NULL OR
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
                              = $8)
                         AND ($9::text IS NULL AND $10::text IS NULL AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
                              OR (SELECT ($9 IS NULL OR e.event_type::text = $9)
                                         AND ($10 IS NULL OR e.tenant_id::text = $10)
                                         AND ($11 IS NULL OR e.recorded_at >= $11)
                                         AND ($12 IS NULL OR e.recorded_at < $12)
                                    FROM "public"."events" AS e
                                   WHERE e.sequence = o.global_sequence))
                         , false) AS chosen
           FROM (SELECT o.*
                   FROM "public".outbox AS o
                  WHERE o.partition_key = l.partition_key
                    AND o.global_sequence < l.after
                    AND o.parked
                  ORDER BY o.global_sequence DESC
                  LIMIT $1) AS o) AS w
 WHERE w.chosen OR w.nth = $1;

/* ops.TroubledUp */ SELECT l.lane, w.global_sequence, w.chosen, w.nth = $1
  FROM unnest($2::smallint[], $3::bigint[]) WITH ORDINALITY AS l (partition_key, after, lane)
 CROSS JOIN LATERAL (
         SELECT o.global_sequence,
                row_number() OVER (ORDER BY o.global_sequence ASC)
                AS nth,
                coalesce(
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
                         = ANY ($4::text[])
                         AND ($5::text IS NULL OR o.stream_id = $5)
                         AND ($6::text IS NULL OR o.topic = $6)
                         AND ($7::text IS NULL OR strpos(o.last_error, $7) > 0)
                         AND ($8::text IS NULL OR
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
                              = $8)
                         AND ($9::text IS NULL AND $10::text IS NULL AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
                              OR (SELECT ($9 IS NULL OR e.event_type::text = $9)
                                         AND ($10 IS NULL OR e.tenant_id::text = $10)
                                         AND ($11 IS NULL OR e.recorded_at >= $11)
                                         AND ($12 IS NULL OR e.recorded_at < $12)
                                    FROM "public"."events" AS e
                                   WHERE e.sequence = o.global_sequence))
                         , false) AS chosen
           FROM (SELECT o.*
                   FROM "public".outbox AS o
                  WHERE o.partition_key = l.partition_key
                    AND o.global_sequence > l.after
                   AND o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
                  ORDER BY o.global_sequence ASC
                  LIMIT $1) AS o) AS w
 WHERE w.chosen OR w.nth = $1;

/* ops.TroubledDown */ SELECT l.lane, w.global_sequence, w.chosen, w.nth = $1
  FROM unnest($2::smallint[], $3::bigint[]) WITH ORDINALITY AS l (partition_key, after, lane)
 CROSS JOIN LATERAL (
         SELECT o.global_sequence,
                row_number() OVER (ORDER BY o.global_sequence DESC)
                AS nth,
                coalesce(
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
                         = ANY ($4::text[])
                         AND ($5::text IS NULL OR o.stream_id = $5)
                         AND ($6::text IS NULL OR o.topic = $6)
                         AND ($7::text IS NULL OR strpos(o.last_error, $7) > 0)
                         AND ($8::text IS NULL OR
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
                              = $8)
                         AND ($9::text IS NULL AND $10::text IS NULL AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
                              OR (SELECT ($9 IS NULL OR e.event_type::text = $9)
                                         AND ($10 IS NULL OR e.tenant_id::text = $10)
                                         AND ($11 IS NULL OR e.recorded_at >= $11)
                                         AND ($12 IS NULL OR e.recorded_at < $12)
                                    FROM "public"."events" AS e
                                   WHERE e.sequence = o.global_sequence))
                         , false) AS chosen
           FROM (SELECT o.*
                   FROM "public".outbox AS o
                  WHERE o.partition_key = l.partition_key
                    AND o.global_sequence < l.after
                   AND o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
                  ORDER BY o.global_sequence DESC
                  LIMIT $1) AS o) AS w
 WHERE w.chosen OR w.nth = $1;

/* ops.WindowUp */ SELECT w.sequence, w.stream_id, w.topic, w.event_id, w.event_type, w.stream_version, w.recorded_at, w.chosen, w.nth = $1
  FROM (SELECT e.*,
               row_number() OVER (ORDER BY e.sequence ASC)
               AS nth,
               coalesce(($2::text IS NULL OR e.stream_id = $2)
                        AND ($3::text IS NULL OR e.topic = $3)
                        AND ($4::text IS NULL OR e.event_type::text = $4)
                        AND ($5::text IS NULL OR e.tenant_id::text = $5)
                        AND ($6::timestamptz IS NULL OR e.recorded_at >= $6)
                        AND ($7::timestamptz IS NULL OR e.recorded_at < $7), false) AS chosen
          FROM (SELECT e.sequence, e.stream_id, coalesce(e.topic, '') AS topic, e.event_id, e.event_type::text, e.stream_version,
                       e.tenant_id::text, e.recorded_at
                  FROM "public"."events" AS e
                 WHERE e.sequence > $8
                 ORDER BY e.sequence ASC
                 LIMIT $1) AS e) AS w
 WHERE w.chosen OR w.nth = $1;

/* ops.WindowDown */ SELECT w.sequence, w.stream_id, w.topic, w.event_id, w.event_type, w.stream_version, w.recorded_at, w.chosen, w.nth = $1
  FROM (SELECT e.*,
               row_number() OVER (ORDER BY e.sequence DESC)
               AS nth,
               coalesce(($2::text IS NULL OR e.stream_id = $2)
                        AND ($3::text IS NULL OR e.topic = $3)
                        AND ($4::text IS NULL OR e.event_type::text = $4)
                        AND ($5::text IS NULL OR e.tenant_id::text = $5)
                        AND ($6::timestamptz IS NULL OR e.recorded_at >= $6)
                        AND ($7::timestamptz IS NULL OR e.recorded_at < $7), false) AS chosen
          FROM (SELECT e.sequence, e.stream_id, coalesce(e.topic, '') AS topic, e.event_id, e.event_type::text, e.stream_version,
                       e.tenant_id::text, e.recorded_at
                  FROM "public"."events" AS e
                 WHERE e.sequence < $8
                 ORDER BY e.sequence DESC
                 LIMIT $1) AS e) AS w
 WHERE w.chosen OR w.nth = $1;

/* ops.SkippedUp */ SELECT DISTINCT s.sequence
  FROM "public".outbox_deliveries AS d
 CROSS JOIN LATERAL unnest(d.skipped) AS s (sequence)
 WHERE d.skipped IS NOT NULL
   AND ($1::smallint[] IS NULL OR d.partition_key = ANY ($1))
   AND s.sequence > $2
 ORDER BY s.sequence ASC
 LIMIT $3;

/* ops.SkippedDown */ SELECT DISTINCT s.sequence
  FROM "public".outbox_deliveries AS d
 CROSS JOIN LATERAL unnest(d.skipped) AS s (sequence)
 WHERE d.skipped IS NOT NULL
   AND ($1::smallint[] IS NULL OR d.partition_key = ANY ($1))
   AND s.sequence < $2
 ORDER BY s.sequence DESC
 LIMIT $3;

/* ops.Rows */ SELECT o.global_sequence, o.partition_key, o.stream_id, o.topic,
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
       , o.attempts, o.generation,
       CASE WHEN isfinite(o.available_at) THEN o.available_at END, o.dead_at, coalesce(o.last_error, ''),
       e.event_id, e.event_type, e.stream_version, e.recorded_at
  FROM unnest($1::smallint[], $2::bigint[]) AS k (partition_key, global_sequence)
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM "public".outbox AS r
          WHERE r.partition_key = k.partition_key AND r.global_sequence >= k.global_sequence AND r.global_sequence <= k.global_sequence
          ORDER BY r.global_sequence
          LIMIT 1) AS o
  LEFT JOIN LATERAL (
         SELECT e.event_id, e.event_type::text, e.stream_version, e.recorded_at
           FROM "public"."events" AS e
          WHERE e.sequence = k.global_sequence
          LIMIT 1) AS e ON true;

/* ops.Among */ SELECT o.partition_key, o.global_sequence,
       coalesce(
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
                = ANY ($1::text[])
                         AND ($2::text IS NULL OR o.stream_id = $2)
                         AND ($3::text IS NULL OR o.topic = $3)
                         AND ($4::text IS NULL OR strpos(o.last_error, $4) > 0)
                         AND ($5::text IS NULL OR
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
                              = $5)
                         AND ($6::text IS NULL AND $7::text IS NULL AND $8::timestamptz IS NULL AND $9::timestamptz IS NULL
                              OR (SELECT ($6 IS NULL OR e.event_type::text = $6)
                                         AND ($7 IS NULL OR e.tenant_id::text = $7)
                                         AND ($8 IS NULL OR e.recorded_at >= $8)
                                         AND ($9 IS NULL OR e.recorded_at < $9)
                                    FROM "public"."events" AS e
                                   WHERE e.sequence = o.global_sequence))
                , false)
  FROM (SELECT r.*
          FROM unnest($10::bigint[]) AS w (sequence)
         CROSS JOIN LATERAL (
                 SELECT q.*
                   FROM "public".outbox AS q
                  WHERE NOT q.parked AND q.partition_key = ANY ($11::smallint[]) AND q.global_sequence = w.sequence
                  LIMIT 1) AS r
         UNION ALL
        SELECT p.*
          FROM unnest($12::smallint[], $13::bigint[]) AS k (partition_key, sequence)
         CROSS JOIN LATERAL (
                 SELECT q.*
                   FROM "public".outbox AS q
                  WHERE q.parked AND q.partition_key = k.partition_key
                    AND q.global_sequence >= k.sequence AND q.global_sequence <= k.sequence
                  ORDER BY q.global_sequence
                  LIMIT 1) AS p) AS o;

/* ops.Named */ SELECT e.sequence, e.stream_id, coalesce(e.topic, ''), e.event_id, e.event_type::text, e.stream_version, e.recorded_at
  FROM "public"."events" AS e
 WHERE e.sequence = ANY ($1::bigint[])
   AND ($2::text IS NULL OR e.stream_id = $2)
   AND ($3::text IS NULL OR e.topic = $3)
   AND ($4::text IS NULL OR e.event_type::text = $4)
   AND ($5::text IS NULL OR e.tenant_id::text = $5)
   AND ($6::timestamptz IS NULL OR e.recorded_at >= $6)
   AND ($7::timestamptz IS NULL OR e.recorded_at < $7);

/* ops.Patience */ SELECT set_config('statement_timeout', $1, true);

/* ops.Stream */ (SELECT e.sequence, NULL::smallint AS partition_key FROM "public"."events" AS e WHERE e.stream_id = $1 ORDER BY e.stream_version LIMIT $2)
 UNION ALL
(SELECT p.global_sequence, p.partition_key
   FROM "public".outbox AS p
  WHERE p.parked AND p.partition_key = ANY ($3::smallint[]) AND p.stream_id = $1
  LIMIT $2);

/* ops.QueuedBetween */ SELECT o.global_sequence
  FROM "public".outbox AS o
 WHERE o.partition_key = ANY ($1::smallint[]) AND o.global_sequence BETWEEN $2 AND $3;

/* ops.Deliveries */ SELECT s.sequence, d.partition_key, d.lease_epoch, d.published_at,
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END,
       coalesce((d.attempts ->> s.sequence::text)::int, 0),
       coalesce((d.generations ->> s.sequence::text)::int, 0),
       d.discarded IS NOT NULL AND s.sequence = ANY (d.discarded),
       d.lost_after
  FROM "public".outbox_deliveries AS d
 CROSS JOIN LATERAL unnest(
         coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
         d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
 WHERE d.partition_key = ANY ($1::smallint[])
   AND d.first_sequence <= $2 AND d.last_sequence >= $3
   AND d.published_at >= $4
   AND ($5::bigint[] IS NULL OR CASE WHEN d.sequences IS NOT NULL THEN d.sequences && $5
                                     ELSE EXISTS (SELECT FROM unnest($5) AS w (sequence)
                                                   WHERE w.sequence BETWEEN d.first_sequence AND d.last_sequence) END)
   AND s.sequence BETWEEN $3 AND $2
   AND ($5 IS NULL OR s.sequence = ANY ($5))
 ORDER BY s.sequence, d.id;

/* ops.Past */ SELECT s.sequence, d.partition_key, d.lease_epoch, d.published_at,
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END,
       coalesce((d.attempts ->> s.sequence::text)::int, 0),
       coalesce((d.generations ->> s.sequence::text)::int, 0),
       d.discarded IS NOT NULL AND s.sequence = ANY (d.discarded),
       d.lost_after
  FROM unnest($1::bigint[], $2::timestamptz[]) AS w (sequence, since)
 CROSS JOIN LATERAL (
         SELECT d.*
           FROM "public".outbox_deliveries AS d
          WHERE d.partition_key = ANY ($3::smallint[])
            AND d.first_sequence <= w.sequence AND d.last_sequence >= w.sequence
            AND d.published_at >= w.since
            AND (d.sequences IS NULL OR w.sequence = ANY (d.sequences))
         OFFSET 0) AS d
 CROSS JOIN LATERAL (
         SELECT a.sequence, a.stream_sequence, a.position
           FROM unnest(coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))), d.stream_sequences)
                WITH ORDINALITY AS a (sequence, stream_sequence, position)
          WHERE a.sequence = w.sequence) AS s
 ORDER BY s.sequence, d.id;

/* ops.Near */ (SELECT e.sequence FROM "public"."events" AS e WHERE e.sequence > $1 ORDER BY e.sequence LIMIT $2)
 UNION
(SELECT e.sequence FROM "public"."events" AS e WHERE e.sequence <= $1 ORDER BY e.sequence DESC LIMIT $2)
 UNION
(SELECT o.global_sequence FROM "public".outbox AS o WHERE o.parked LIMIT $2);

/* ops.Try */ SELECT count(e.stream_id), count(e.topic), count(e.event_id), count(e.event_type::text), count(e.stream_version), count(e.recorded_at),
       count(e.tenant_id::text), count(e.occurred_at), count(coalesce(e.audit_only, false)), count(e.metadata)
  FROM "public"."events" AS e
 WHERE e.sequence = ANY ($1::bigint[]);

/* ops.Find */ SELECT e.sequence FROM "public"."events" AS e WHERE e.event_id = $1;

/* ops.EventsLike */ SELECT e.event_id FROM "public"."events" AS e WHERE e.event_id BETWEEN $1 AND $2 ORDER BY e.event_id LIMIT $3;

/* ops.Event */ SELECT e.stream_id, coalesce(e.topic, ''), e.event_id, e.event_type::text, e.stream_version, e.recorded_at,
       coalesce(e.tenant_id::text, ''), e.occurred_at, coalesce(e.audit_only, false), e.metadata
  FROM "public"."events" AS e
 WHERE e.sequence = $1;

/* ops.Payload */ SELECT e.payload FROM "public"."events" AS e WHERE e.sequence = $1;

/* ops.Pointer */ SELECT o.partition_key, o.stream_id, o.topic,
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
       , o.attempts, o.generation,
       CASE WHEN isfinite(o.available_at) THEN o.available_at END, o.dead_at, coalesce(o.last_error, ''), o.failures
  FROM unnest($1::smallint[]) AS p (partition_key)
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM "public".outbox AS r
          WHERE r.partition_key = p.partition_key AND r.global_sequence >= $2 AND r.global_sequence <= $2
          ORDER BY r.global_sequence
          LIMIT 1) AS o;

/* ops.Beside */ SELECT o.global_sequence,
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
  FROM ((SELECT p.* FROM "public".outbox AS p
          WHERE p.parked AND p.partition_key = $1 AND p.stream_id = $2 AND p.global_sequence < $3
          ORDER BY p.global_sequence
          LIMIT 1)
         UNION ALL
        (SELECT p.* FROM "public".outbox AS p
          WHERE p.parked AND p.partition_key = $1 AND p.stream_id = $2 AND p.global_sequence > $3
          ORDER BY p.global_sequence
          LIMIT $4)
         UNION ALL
        (SELECT r.*
           FROM unnest($5::bigint[]) AS w (sequence)
          CROSS JOIN LATERAL (
                  SELECT n.*
                    FROM "public".outbox AS n
                   WHERE NOT n.parked AND n.partition_key = $1 AND n.global_sequence = w.sequence
                   LIMIT 1) AS r
          WHERE r.global_sequence <> $3 AND r.stream_id = $2)
         UNION ALL
        (SELECT r.*
           FROM (SELECT n.* FROM "public".outbox AS n
                  WHERE NOT n.parked AND n.partition_key = $1 AND n.global_sequence < $3
                  ORDER BY n.global_sequence DESC
                  LIMIT $6) AS r
          WHERE $5::bigint[] IS NULL AND r.stream_id = $2)
         UNION ALL
        (SELECT r.*
           FROM (SELECT n.* FROM "public".outbox AS n
                  WHERE NOT n.parked AND n.partition_key = $1 AND n.global_sequence > $3
                  ORDER BY n.global_sequence
                  LIMIT $6) AS r
          WHERE $5 IS NULL AND r.stream_id = $2)) AS o
 ORDER BY o.global_sequence;

/* ops.States */ SELECT o.global_sequence,
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
       , o.partition_key
  FROM "public".outbox AS o
 WHERE o.partition_key = ANY ($1::smallint[]) AND o.global_sequence = ANY ($2::bigint[]);

/* ops.MayReadAudit */ SELECT has_table_privilege('"public".outbox_audit', 'SELECT') AND set_config('enable_bitmapscan', 'on', true) IS NOT NULL;

/* ops.Actions */ WITH found AS MATERIALIZED (
       SELECT a.id, a.at, a.actor, a.action, a.reason, a.details
         FROM "public".outbox_audit AS a
        WHERE a.target -> 'sequences' @> to_jsonb($1::bigint))
SELECT f.id, f.at, f.actor, f.action, coalesce(f.reason, ''),
       coalesce((m.was ->> 'attempts')::int, 0), coalesce((m.was ->> 'generation')::int, 0), coalesce(m.was ->> 'last_error', '')
  FROM found AS f
  LEFT JOIN LATERAL (
         SELECT w.was
           FROM jsonb_array_elements(CASE jsonb_typeof(f.details -> 'messages') WHEN 'array' THEN f.details -> 'messages' END) AS w (was)
          WHERE w.was -> 'global_sequence' = to_jsonb($1::bigint)
          LIMIT 1) AS m ON true
 ORDER BY f.id DESC
 LIMIT $2;

-- delivery/ops/contracts/sql/*.sql

/* contracts.Problem */ SELECT "public".outbox_schema_problem($1::text::jsonb), $1::text::jsonb::text;

/* contracts.Put */ INSERT INTO "public".outbox_types AS t (event_type, json_schema, checked, description)
VALUES ($1, $2::text::jsonb, $3, nullif($4, ''))
ON CONFLICT (event_type) DO UPDATE
   SET json_schema = excluded.json_schema, checked = excluded.checked, description = excluded.description,
       updated_at = clock_timestamp();

/* contracts.Find */ SELECT t.event_type, t.json_schema::text, t.checked, coalesce(t.description, ''), t.created_at, t.updated_at
  FROM "public".outbox_types AS t WHERE t.event_type = $1;

/* contracts.List */ SELECT t.event_type, t.json_schema::text, t.checked, coalesce(t.description, ''), t.created_at, t.updated_at
  FROM "public".outbox_types AS t ORDER BY t.event_type COLLATE "C";

/* contracts.Remove */ DELETE FROM "public".outbox_types WHERE event_type = $1;

/* contracts.Seen */ SELECT n.topic, n.event_type, count(*), max(n.sequence)
  FROM (SELECT e.sequence, e.event_type::text, coalesce(e.topic, 'default') AS topic, coalesce(e.audit_only, false) AS audit_only
          FROM "public"."events" AS e ORDER BY e.sequence DESC LIMIT $1) AS n
 WHERE NOT n.audit_only
 GROUP BY n.topic, n.event_type
 ORDER BY n.topic COLLATE "C", n.event_type COLLATE "C";

-- delivery/ops/gaps/sql/*.sql

/* gaps.Bounds */ SELECT (SELECT d.published_at FROM "public".outbox_deliveries AS d ORDER BY d.published_at LIMIT 1),
       (SELECT coalesce(max(e.sequence), 0) FROM "public"."events" AS e),
       (SELECT coalesce(max(d.id), 0) FROM "public".outbox_deliveries AS d),
       clock_timestamp() - interval '10 minutes',
       s.partition_count,
       coalesce((SELECT min(d.id) = 1 FROM "public".outbox_deliveries AS d), false),
       s.events_from
  FROM "public".outbox_settings AS s;

/* gaps.Events */ SELECT e.sequence
  FROM "public"."events" AS e
 WHERE e.sequence > $1 AND e.sequence <= $2
   AND NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($4::timestamptz IS NULL OR e.recorded_at >= $4)
   AND e.sequence NOT IN (SELECT o.global_sequence FROM "public".outbox AS o
                           WHERE o.partition_key = ANY ($5::smallint[]) AND o.global_sequence > $1 AND o.global_sequence <= $2
                              AND ($3::text IS NULL OR o.stream_id = $3));

/* gaps.Following */ SELECT coalesce(min(e.sequence) - 1, $1) FROM "public"."events" AS e WHERE e.sequence > $2 AND e.sequence <= $1;

/* gaps.Suspects */ WITH asked AS MATERIALIZED (SELECT s AS sequence FROM unnest($1::bigint[]) AS s),
     known AS MATERIALIZED (
       SELECT s.sequence
         FROM "public".outbox_deliveries AS d
 CROSS JOIN LATERAL unnest(
         coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
         d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
        WHERE d.published_at >= $2
          AND d.first_sequence <= (SELECT max(sequence) FROM asked) AND d.last_sequence >= (SELECT min(sequence) FROM asked)
   AND (d.lost_after IS NULL
        OR coalesce(
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END
           <= d.lost_after, true))
        UNION ALL
       SELECT u.sequence::bigint
         FROM "public".outbox_audit AS a
        CROSS JOIN LATERAL jsonb_array_elements_text(a.target -> 'sequences') AS u (sequence)
        WHERE a.action IN ('dead.skip', 'dead.discard', 'scheduled.cancel')
          AND u.sequence::bigint BETWEEN (SELECT min(sequence) FROM asked) AND (SELECT max(sequence) FROM asked))
SELECT e.sequence, e.stream_id, e.event_id, e.stream_version, coalesce(e.routing_key, e.stream_id)
  FROM (SELECT a.sequence FROM asked AS a EXCEPT SELECT k.sequence FROM known AS k) AS left_over
  JOIN "public"."events" AS e USING (sequence)
  LEFT JOIN LATERAL (
         SELECT true AS waits
           FROM "public".outbox AS o
          WHERE o.partition_key = ANY ($3::smallint[]) AND o.global_sequence = e.sequence
          LIMIT 1) AS pointer ON true
 WHERE NOT coalesce(e.audit_only, false)
   AND pointer.waits IS NULL
 ORDER BY e.sequence;

/* gaps.Pointers */ SELECT p.partition_key, p.global_sequence, p.stream_id, e.sequence IS NOT NULL
  FROM (SELECT o.partition_key, o.global_sequence, o.stream_id
          FROM "public".outbox AS o
         WHERE (o.partition_key, o.global_sequence) > ($1::int, $2::bigint)
         ORDER BY o.partition_key, o.global_sequence
         LIMIT $3) AS p
  LEFT JOIN "public"."events" AS e ON e.sequence = p.global_sequence
 ORDER BY p.partition_key, p.global_sequence;

/* gaps.Versions */ SELECT v.stream_id, v.stream_version, v.before, v.sequence, v.key, v.n
  FROM (SELECT p.stream_id, p.stream_version, p.sequence, p.key,
               CASE WHEN lag(p.stream_id, 1, $1::text) OVER w = p.stream_id THEN lag(p.stream_version, 1, $2::bigint) OVER w ELSE 0 END AS before,
               row_number() OVER w AS n, count(*) OVER () AS total
          FROM (SELECT e.stream_id, e.stream_version, e.sequence, coalesce(e.routing_key, e.stream_id) AS key
                  FROM "public"."events" AS e
                 WHERE (e.stream_id, e.stream_version) > ($1::text, $2::bigint)
                   AND ($3::text IS NULL OR e.stream_id = $3)
                 ORDER BY e.stream_id, e.stream_version
                 LIMIT $4) AS p
        WINDOW w AS (ORDER BY p.stream_id, p.stream_version)) AS v
 WHERE v.stream_version <> v.before + 1 OR v.n = v.total
 ORDER BY v.stream_id, v.stream_version;

/* gaps.Unknown */ SELECT u.place, e.event_id
  FROM unnest($1::bigint[], $2::uuid[]) WITH ORDINALITY AS u (sequence, id, place)
  LEFT JOIN "public"."events" AS e ON e.sequence = u.sequence
 WHERE e.event_id IS DISTINCT FROM u.id
   AND u.sequence >= (SELECT s.events_from FROM "public".outbox_settings AS s);

/* gaps.Enqueue */ INSERT INTO "public".outbox (global_sequence, partition_key, generation, parked, blocked, stream_id, topic)
SELECT e.sequence, n.partition_key, n.generation, true,
       row_number() OVER (PARTITION BY n.partition_key, e.stream_id ORDER BY e.sequence) > 1
       OR EXISTS (SELECT FROM "public".outbox AS p
                   WHERE p.parked AND p.partition_key = n.partition_key AND p.stream_id = e.stream_id
                     AND p.global_sequence < e.sequence),
       e.stream_id, coalesce(e.topic, 'default')
  FROM unnest($1::smallint[], $2::bigint[], $3::int[]) AS n (partition_key, sequence, generation)
  JOIN "public"."events" AS e ON e.sequence = n.sequence
 CROSS JOIN "public".outbox_settings AS s
 WHERE s.partition_count = $4
RETURNING global_sequence;

/* gaps.HistoryEnd */ SELECT max(p.id), count(*)
  FROM (SELECT h.id
          FROM "public".outbox_deliveries AS h
         WHERE h.id > $1 AND h.first_sequence <= $2 AND h.last_sequence >= $3
         ORDER BY h.id
         LIMIT $4
       ) AS p;

/* gaps.History */ SELECT d.id, d.partition_key, s.sequence,
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END
       AS stream_sequence,
       coalesce((d.generations ->> s.sequence::text)::int, 0)
  FROM (SELECT h.*
          FROM "public".outbox_deliveries AS h
         WHERE h.id > $1 AND h.first_sequence <= $2 AND h.last_sequence >= $3
         ORDER BY h.id
         LIMIT $4
       ) AS d
 CROSS JOIN LATERAL unnest(
         coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
         d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
 WHERE s.sequence BETWEEN $3 AND $2
   AND (d.lost_after IS NULL
        OR coalesce(
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END
           <= d.lost_after, true))
 ORDER BY d.id;

/* gaps.Deliveries */ WITH asked AS MATERIALIZED (SELECT DISTINCT s AS sequence FROM unnest($1::bigint[]) AS s)
SELECT a.sequence, e.stream_id, e.event_id, e.stream_version, coalesce(e.routing_key, e.stream_id),
       EXISTS (SELECT FROM "public".outbox AS o WHERE o.partition_key = ANY ($2::smallint[]) AND o.global_sequence = a.sequence),
       coalesce(h.positions, '{}'), coalesce(h.generation, 0), coalesce(h.published_at, '-infinity')
  FROM asked AS a
  JOIN "public"."events" AS e ON e.sequence = a.sequence
  LEFT JOIN (SELECT s.sequence,
                    array_agg(
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END
                              ORDER BY d.id) AS positions,
                    max(coalesce((d.generations ->> s.sequence::text)::int, 0)) AS generation,
                    max(d.published_at) AS published_at
               FROM "public".outbox_deliveries AS d
 CROSS JOIN LATERAL unnest(
         coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
         d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
              WHERE d.first_sequence <= (SELECT max(sequence) FROM asked) AND d.last_sequence >= (SELECT min(sequence) FROM asked)
                AND s.sequence IN (SELECT sequence FROM asked)
              GROUP BY s.sequence) AS h ON h.sequence = a.sequence
 ORDER BY a.sequence;

-- delivery/ops/maintenance/sql/*.sql

/* maintenance.Set */ SELECT set_config(s.name, s.value, true) FROM unnest($1::text[], $2::text[]) AS s (name, value) WHERE current_setting(s.name, true) IS NOT NULL;

/* maintenance.LockTable */ LOCK TABLE "public".outbox IN ROW EXCLUSIVE MODE;

/* maintenance.LockPartitions */ SELECT partition_key
  FROM "public".outbox_partitions
 WHERE partition_key = ANY ($1::smallint[])
 ORDER BY partition_key
   FOR NO KEY UPDATE;

/* maintenance.Partitions */ SELECT array_agg(p::smallint) FROM "public".outbox_settings AS s, generate_series(0, s.partition_count - 1) AS p;

/* maintenance.Promote */ UPDATE "public".outbox AS p
   SET blocked = false
  FROM (SELECT DISTINCT s.partition_key, s.stream_id
          FROM unnest($1::smallint[], $2::text[]) AS s (partition_key, stream_id)) AS stream
 CROSS JOIN LATERAL (
         SELECT f.global_sequence
           FROM "public".outbox AS f
          WHERE f.parked AND f.partition_key = stream.partition_key AND f.stream_id = stream.stream_id
          ORDER BY f.global_sequence
          LIMIT 1) AS first
 WHERE p.parked AND p.blocked
   AND p.partition_key = stream.partition_key
   AND p.global_sequence = first.global_sequence;

/* maintenance.Record */ INSERT INTO "public".outbox_audit (actor, action, target, reason, details)
VALUES ($1, $2, $3, nullif($4, ''), $5);

-- delivery/ops/parts/sql/*.sql

/* parts.Patience */ SELECT set_config('lock_timeout', $1::text, true), set_config('statement_timeout', '0', true),
       set_config('idle_in_transaction_session_timeout', '10s', true), CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', true) END;

/* parts.State */ SELECT s.events_in_parts, s.events_relation,
       CASE WHEN s.events_in_parts OR s.events_relation <> 'events' THEN '' ELSE coalesce("public".outbox_events_hindrance(), '') END
  FROM "public".outbox_settings AS s;

/* parts.Bound */ SELECT "public".outbox_events_bound();

/* parts.Validate */ ALTER TABLE "public".events VALIDATE CONSTRAINT events_bound;

/* parts.Split */ SELECT "public".outbox_events_split();

/* parts.Begin */ SELECT "public".outbox_events_begin();

/* parts.Drop */ SELECT "public".outbox_events_drop($1::bigint);

/* parts.Analyze */ ANALYZE "public".events;

/* parts.Parts */ SELECT n.part, n.name, greatest(n.reltuples, 0)::bigint, pg_total_relation_size(n.oid), f.sequence, f.recorded_at, l.sequence, l.recorded_at
  FROM (SELECT c.oid, c.relname::text AS name, c.reltuples, substring(c.relname FROM 8)::bigint AS part
          FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE i.inhparent = '"public".events'::regclass) AS n
  LEFT JOIN LATERAL (SELECT e.sequence, e.recorded_at FROM "public".events AS e
                      WHERE e.sequence < (n.part + 1) * 1000000000000 AND (n.part = 0 OR e.sequence >= n.part * 1000000000000)
                      ORDER BY e.sequence LIMIT 1) AS f ON true
  LEFT JOIN LATERAL (SELECT e.sequence, e.recorded_at FROM "public".events AS e
                      WHERE e.sequence < (n.part + 1) * 1000000000000 AND (n.part = 0 OR e.sequence >= n.part * 1000000000000)
                      ORDER BY e.sequence DESC LIMIT 1) AS l ON true
 ORDER BY n.part;

/* parts.Events */ SELECT e.sequence, e.event_id, e.stream_id, e.stream_version, e.event_type, e.topic, coalesce(e.tenant_id, ''), coalesce(e.routing_key, ''),
       e.metadata, e.audit_only, e.occurred_at, e.recorded_at, e.payload
  FROM "public".events AS e
 WHERE e.sequence < ($1::bigint + 1) * 1000000000000 AND ($1 = 0 OR e.sequence >= $1 * 1000000000000)
 ORDER BY e.sequence;

/* parts.Holders */ SELECT coalesce(string_agg(DISTINCT CASE WHEN l.pid IS NULL THEN 'a prepared transaction (pg_prepared_xacts)'
                                         ELSE format('pid %s (%s, %s s)', l.pid,
                                                     coalesce(nullif(a.application_name, ''), nullif(a.backend_type, 'client backend'), 'unnamed'),
                                                     greatest(extract(epoch FROM clock_timestamp() - a.xact_start)::int, 0)) END, ', '),
                'nobody any more')
  FROM pg_locks AS l
  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
 WHERE l.locktype = 'relation' AND l.granted
   AND l.relation IN (SELECT '"public".events'::regclass UNION ALL SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = '"public".events'::regclass)
   AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
   AND ($1::boolean OR l.mode = 'RowExclusiveLock') AND l.pid IS DISTINCT FROM pg_backend_pid();

-- delivery/ops/replay/sql/*.sql

/* replay.Jobs */ SELECT r.id, r.kind, r.destination, r.state, r.actor, coalesce(r.reason, ''), r.selection, coalesce(r.prefix, ''), coalesce(r.stream, ''),
       r.position, r.last_sequence, r.selected, r.replayed, r.gone, r.failed, r.stream_sequence, r.generation,
       r.created_at, r.updated_at, r.finished_at, coalesce(r.waiting_for, ''), coalesce(r.last_error, ''),
       CASE WHEN isfinite(r.updated_at) THEN greatest(clock_timestamp() - r.updated_at, '0') ELSE '0' END, r.expected, CASE WHEN r.rate BETWEEN 0 AND 1e9 THEN r.rate ELSE 0 END
  FROM "public".outbox_replays AS r
 WHERE ($1::bigint IS NULL OR r.id < $1) AND ($2::bigint IS NULL OR r.id = $2)
 ORDER BY r.id DESC
 LIMIT $3;

/* replay.LockReplays */ LOCK TABLE "public".outbox_replays IN SHARE UPDATE EXCLUSIVE MODE;

/* replay.Generation */ SELECT 100 * (1 + greatest(
         coalesce((SELECT max(r.generation) FROM "public".outbox_replays AS r
                    WHERE NOT (r.state = 'cancelled' AND (r.destination = 'live' AND r.replayed = 0 OR coalesce(r.expected <> r.selected, false)))), 0),
         coalesce((SELECT max(o.generation) FROM "public".outbox AS o WHERE o.generation > 0), 0),
         coalesce((SELECT max(g.value::int)
                     FROM "public".outbox_deliveries AS d
                    CROSS JOIN LATERAL jsonb_each_text(d.generations) AS g (key, value)
                    WHERE d.generations IS NOT NULL), 0)) / 100);

/* replay.Create */ INSERT INTO "public".outbox_replays
       (kind, destination, actor, selection, reason, prefix, stream, position, last_sequence, generation, state, expected, rate)
VALUES ($1, $2, $3, $4, nullif($5, ''), nullif($6, ''), nullif($7, ''), $8, $9, $10, $11, $12, nullif($13::float8, 0))
RETURNING id;

/* replay.Choose */ INSERT INTO "public".outbox_replay_sequences (replay_id, sequence)
SELECT $1, s FROM unnest($2::bigint[]) AS s;

/* replay.Forget */ DELETE FROM "public".outbox_replay_sequences WHERE replay_id = $1;

/* replay.SetSelected */ UPDATE "public".outbox_replays SET selected = $1, updated_at = clock_timestamp() WHERE id = $2 AND selected IS NULL;

/* replay.Touch */ UPDATE "public".outbox_replays SET updated_at = clock_timestamp() WHERE id = $1 AND state = 'running';

/* replay.Take */ UPDATE "public".outbox_replays
   SET state = 'running', runner = $1, generation = $2, waiting_for = NULL, updated_at = clock_timestamp(),
       rate = CASE WHEN $3::boolean THEN rate END
 WHERE id = $4 AND state NOT IN ('done', 'cancelled')
   AND (NOT $3::boolean
        OR rate IS NOT NULL AND (state IN ('planned', 'paused') OR state = 'running' AND updated_at < clock_timestamp() - $5::interval
                             OR state = 'running' AND updated_at = ANY ($6::timestamptz[])));

/* replay.Ahead */ SELECT id, updated_at FROM "public".outbox_replays WHERE rate IS NOT NULL AND state = 'running' AND updated_at > clock_timestamp() + $1::interval;

/* replay.Due */ SELECT r.id
  FROM "public".outbox_replays AS r
 WHERE r.rate IS NOT NULL
   AND (r.state IN ('planned', 'paused') OR r.state = 'running' AND r.updated_at < clock_timestamp() - $1::interval
        OR r.state = 'running' AND r.updated_at = ANY ($2::timestamptz[]))
   AND NOT EXISTS (SELECT FROM "public".outbox_replays AS o WHERE o.destination = 'live' AND o.state = 'running' AND o.id <> r.id)
 ORDER BY r.updated_at, r.id
 LIMIT 1;

/* replay.Hold */ SELECT r.position, r.generation
  FROM "public".outbox_replays AS r
 WHERE r.id = $1 AND r.runner = $2 AND r.state = 'running'
   FOR UPDATE;

/* replay.Advance */ UPDATE "public".outbox_replays
   SET position        = $1,
       replayed        = replayed + $2,
       gone            = gone + $3,
       failed          = failed + $4,
       stream_sequence = greatest(stream_sequence, $5),
       last_error      = coalesce(nullif($6, ''), last_error),
       waiting_for     = nullif($7, ''),
       updated_at      = clock_timestamp()
 WHERE id = $8 AND runner = $9 AND state = 'running';

/* replay.Finish */ UPDATE "public".outbox_replays
   SET state = $1, runner = NULL, waiting_for = NULL, last_error = coalesce(nullif($2::text, ''), last_error), updated_at = clock_timestamp(),
       finished_at = CASE WHEN $1 IN ('done', 'cancelled') THEN clock_timestamp() END
 WHERE id = $3 AND ($4::uuid IS NULL AND state NOT IN ('done', 'cancelled') OR runner = $4 AND state = 'running');

/* replay.ReadyBelow */ SELECT EXISTS (SELECT FROM "public".outbox AS o WHERE NOT o.parked AND o.partition_key = ANY ($1::smallint[]) AND o.global_sequence <= $2);

/* replay.Backlog */ SELECT (SELECT count(*) FROM (SELECT FROM "public".outbox AS o WHERE NOT o.parked LIMIT $1) AS ready)
     + (SELECT count(*)
          FROM (SELECT FROM "public".outbox AS o
                 WHERE o.parked AND o.replay_id IS NOT NULL AND o.dead_at IS NULL AND o.attempts = 0
                   AND NOT (o.blocked
                            AND EXISTS (SELECT FROM "public".outbox AS e
                                         WHERE e.parked AND e.partition_key = o.partition_key AND e.stream_id = o.stream_id
                                           AND e.global_sequence < o.global_sequence
                                           AND (e.dead_at IS NOT NULL OR e.attempts > 0)))
                 LIMIT $1) AS replayed)
     + (SELECT count(*)
          FROM (SELECT FROM "public".outbox AS o
                 WHERE o.parked AND o.replay_id IS NULL AND NOT o.blocked AND o.dead_at IS NULL AND o.attempts = 0
                   AND (o.scheduled_for IS NULL OR o.available_at <= clock_timestamp())
                 LIMIT $1) AS revived);

/* replay.Occupied */ SELECT o.global_sequence,
       "public".outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
  FROM unnest($1::smallint[], $2::bigint[]) AS s (partition_key, sequence)
  JOIN "public".outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
 ORDER BY o.global_sequence
 LIMIT 1;

/* replay.Enqueue */ INSERT INTO "public".outbox (global_sequence, partition_key, generation, replay_id, parked, blocked, stream_id, topic)
SELECT n.sequence, n.partition_key, $1, $2, true,
       row_number() OVER (PARTITION BY n.partition_key, n.stream_id ORDER BY n.sequence) > 1
       OR EXISTS (SELECT FROM "public".outbox AS p
                   WHERE p.parked AND p.partition_key = n.partition_key AND p.stream_id = n.stream_id
                     AND p.global_sequence < n.sequence),
       n.stream_id, n.topic
  FROM unnest($3::smallint[], $4::bigint[], $5::text[], $6::text[]) AS n (partition_key, sequence, stream_id, topic)
 CROSS JOIN "public".outbox_settings AS s
 WHERE s.partition_count = $7;

/* replay.Chosen */ SELECT x.sequence, o.partition_key
  FROM (SELECT c.sequence FROM "public".outbox_replay_sequences AS c
         WHERE c.replay_id = $1 AND c.sequence > $2
         ORDER BY c.sequence
         LIMIT $3) AS x
  LEFT JOIN "public".outbox AS o
         ON o.partition_key = ANY ($4::smallint[]) AND o.global_sequence = x.sequence AND o.parked
        AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
 ORDER BY x.sequence;

/* replay.Retry */ WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error
         FROM unnest($1::smallint[], $2::bigint[]) AS s (partition_key, sequence)
         JOIN "public".outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
          FOR UPDATE OF o),
     changed AS (
       UPDATE "public".outbox AS o
          SET attempts     = 0,
              generation   = o.generation + 1,
              dead_at      = NULL,
              last_error   = NULL,
              available_at = clock_timestamp(),
              blocked      = EXISTS (SELECT FROM "public".outbox AS f
                                      WHERE f.parked
                                        AND f.partition_key = o.partition_key
                                        AND f.stream_id = o.stream_id
                                        AND f.global_sequence < o.global_sequence)
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM chosen
 ORDER BY partition_key, global_sequence;

/* replay.HasStream */ SELECT EXISTS (SELECT FROM "public"."events" AS e WHERE e.stream_id = $1);

/* replay.Writers */ WITH RECURSIVE tables (relid) AS (
       SELECT $1::text::regclass::oid
        UNION
       SELECT below.relid
         FROM tables AS t
        CROSS JOIN LATERAL (
                SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = t.relid
                 UNION ALL
                SELECT d.refobjid
                  FROM pg_rewrite AS r
                  JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
                 WHERE r.ev_class = t.relid AND r.ev_type = '1') AS below (relid))
SELECT (SELECT coalesce(max(e.sequence), 0) FROM "public"."events" AS e),
       (SELECT w.safe_sequence FROM "public".outbox_watermark AS w),
       coalesce(array_agg(l.virtualtransaction), '{}'), coalesce(array_agg(coalesce(l.pid, 0)), '{}'),
       coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false)
  FROM (SELECT DISTINCT k.virtualtransaction, k.pid
          FROM pg_locks AS k
         WHERE k.locktype = 'relation' AND k.granted AND k.mode = 'RowExclusiveLock'
           AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
           AND k.relation IN (SELECT relid FROM tables)
           AND k.pid IS DISTINCT FROM pg_backend_pid()) AS l;

/* replay.Count */ SELECT count(*), coalesce(min(e.sequence), 0), coalesce(max(e.sequence), 0), min(e.recorded_at), max(e.recorded_at)
  FROM "public"."events" AS e
 WHERE e.sequence > $1 AND e.sequence <= $2
   AND
       NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($4::text IS NULL OR e.event_type::text = $4)
   AND ($5::text IS NULL OR e.topic = $5)
   AND ($6::text IS NULL OR e.tenant_id::text = $6)
   AND ($7::timestamptz IS NULL OR e.recorded_at >= $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at < $8)
   AND ($9::bigint IS NOT NULL
        OR e.sequence NOT IN (SELECT o.global_sequence FROM "public".outbox AS o
                               WHERE o.partition_key = ANY ($10::smallint[]) AND o.global_sequence > $1 AND o.global_sequence <= $2
                                 AND ($3::text IS NULL OR o.stream_id = $3) AND (NOT $11::boolean OR o.replay_id IS NULL)
                               UNION ALL
                              SELECT
              u.sequence::bigint AS sequence
         FROM "public".outbox_audit AS a
        CROSS JOIN LATERAL jsonb_array_elements_text(a.target -> 'sequences') AS u (sequence)
        WHERE a.action IN ('dead.skip', 'dead.discard', 'scheduled.cancel')
                              ))
   AND ($9::bigint IS NULL
        OR e.sequence NOT IN (SELECT x.sequence FROM "public".outbox_replay_sequences AS x
                               WHERE x.replay_id = $9 AND x.sequence > $1 AND x.sequence <= $2));

/* replay.CountCurrent */ SELECT count(*), coalesce(min(e.sequence), 0), coalesce(max(e.sequence), 0), min(e.recorded_at), max(e.recorded_at)
  FROM "public"."events" AS e
 WHERE e.sequence > $1 AND e.sequence <= $2
   AND
       NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($4::text IS NULL OR e.event_type::text = $4)
   AND ($5::text IS NULL OR e.topic = $5)
   AND ($6::text IS NULL OR e.tenant_id::text = $6)
   AND ($7::timestamptz IS NULL OR e.recorded_at >= $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at < $8)
   AND
       NOT EXISTS (SELECT FROM "public"."events" AS l
                    WHERE l.stream_id = e.stream_id AND l.stream_version > e.stream_version AND l.sequence <= $9::bigint
                      AND
                      NOT coalesce(l.audit_only, false)
                  AND ($3::text IS NULL OR l.stream_id = $3)
                  AND ($4::text IS NULL OR l.event_type::text = $4)
                  AND ($5::text IS NULL OR l.topic = $5)
                  AND ($6::text IS NULL OR l.tenant_id::text = $6)
                  AND ($7::timestamptz IS NULL OR l.recorded_at >= $7)
                  AND ($8::timestamptz IS NULL OR l.recorded_at < $8)
                  )
   AND ($10::bigint IS NOT NULL
        OR e.sequence NOT IN (SELECT o.global_sequence FROM "public".outbox AS o
                               WHERE o.partition_key = ANY ($11::smallint[]) AND o.global_sequence > $1 AND o.global_sequence <= $2
                                 AND ($3::text IS NULL OR o.stream_id = $3) AND (NOT $12::boolean OR o.replay_id IS NULL)
                               UNION ALL
                              SELECT
              u.sequence::bigint AS sequence
         FROM "public".outbox_audit AS a
        CROSS JOIN LATERAL jsonb_array_elements_text(a.target -> 'sequences') AS u (sequence)
        WHERE a.action IN ('dead.skip', 'dead.discard', 'scheduled.cancel')
                              ))
   AND ($10::bigint IS NULL
        OR e.sequence NOT IN (SELECT x.sequence FROM "public".outbox_replay_sequences AS x
                               WHERE x.replay_id = $10 AND x.sequence > $1 AND x.sequence <= $2));

/* replay.Unwanted */ SELECT count(*)
  FROM (SELECT DISTINCT
              u.sequence::bigint AS sequence
         FROM "public".outbox_audit AS a
        CROSS JOIN LATERAL jsonb_array_elements_text(a.target -> 'sequences') AS u (sequence)
        WHERE a.action IN ('dead.skip', 'dead.discard', 'scheduled.cancel')
               AND u.sequence::bigint > $1 AND u.sequence::bigint <= $2) AS unwanted
  JOIN "public"."events" AS e USING (sequence)
 WHERE
       NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($4::text IS NULL OR e.event_type::text = $4)
   AND ($5::text IS NULL OR e.topic = $5)
   AND ($6::text IS NULL OR e.tenant_id::text = $6)
   AND ($7::timestamptz IS NULL OR e.recorded_at >= $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at < $8);

/* replay.Waiting */ SELECT count(*)
  FROM (SELECT DISTINCT o.global_sequence AS sequence
          FROM "public".outbox AS o
         WHERE o.global_sequence > $1 AND o.global_sequence <= $2
           AND ($3::text IS NULL OR o.stream_id = $3)
           AND (NOT $4::boolean OR o.replay_id IS NULL)) AS waiting
  JOIN "public"."events" AS e USING (sequence)
 WHERE
       NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($5::text IS NULL OR e.event_type::text = $5)
   AND ($6::text IS NULL OR e.topic = $6)
   AND ($7::text IS NULL OR e.tenant_id::text = $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at >= $8)
   AND ($9::timestamptz IS NULL OR e.recorded_at < $9);

/* replay.LeaveOut */ WITH waiting AS MATERIALIZED (
       SELECT o.global_sequence AS sequence
         FROM "public".outbox AS o
        WHERE o.global_sequence > $1 AND o.global_sequence <= $2
          AND ($3::text IS NULL OR o.stream_id = $3)
          AND (NOT $4::boolean OR o.replay_id IS NULL)
        UNION
       SELECT
              u.sequence::bigint AS sequence
         FROM "public".outbox_audit AS a
        CROSS JOIN LATERAL jsonb_array_elements_text(a.target -> 'sequences') AS u (sequence)
        WHERE a.action IN ('dead.skip', 'dead.discard', 'scheduled.cancel')
              AND u.sequence::bigint > $1 AND u.sequence::bigint <= $2)
INSERT INTO "public".outbox_replay_sequences (replay_id, sequence)
SELECT $5, e.sequence
  FROM waiting JOIN "public"."events" AS e USING (sequence)
 WHERE
       NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($6::text IS NULL OR e.event_type::text = $6)
   AND ($7::text IS NULL OR e.topic = $7)
   AND ($8::text IS NULL OR e.tenant_id::text = $8)
   AND ($9::timestamptz IS NULL OR e.recorded_at >= $9)
   AND ($10::timestamptz IS NULL OR e.recorded_at < $10);

/* replay.Troubled */ SELECT o.global_sequence
  FROM "public".outbox AS o
  LEFT JOIN "public"."events" AS e ON e.sequence = o.global_sequence
 WHERE o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
   AND o.global_sequence > $1 AND o.global_sequence <= $2
   AND (e.sequence IS NULL AND coalesce($3::text, $4::text, $5::text, $6::text, $7::timestamptz::text, $8::timestamptz::text) IS NULL
        OR e.sequence IS NOT NULL AND
       NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($4::text IS NULL OR e.event_type::text = $4)
   AND ($5::text IS NULL OR e.topic = $5)
   AND ($6::text IS NULL OR e.tenant_id::text = $6)
   AND ($7::timestamptz IS NULL OR e.recorded_at >= $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at < $8)
            );

/* replay.Following */ SELECT coalesce(min(e.sequence) - 1, $1) FROM "public"."events" AS e WHERE e.sequence > $2 AND e.sequence <= $1;

/* replay.Page */ SELECT e.sequence, e.stream_id, coalesce(e.topic, 'default'), coalesce(e.routing_key, e.stream_id)
  FROM "public"."events" AS e
 WHERE e.sequence > $1 AND e.sequence <= $2
   AND
       NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($4::text IS NULL OR e.event_type::text = $4)
   AND ($5::text IS NULL OR e.topic = $5)
   AND ($6::text IS NULL OR e.tenant_id::text = $6)
   AND ($7::timestamptz IS NULL OR e.recorded_at >= $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at < $8)
   AND NOT EXISTS (SELECT FROM "public".outbox_replay_sequences AS x WHERE x.replay_id = $9 AND x.sequence = e.sequence)
 ORDER BY e.sequence
 LIMIT $10;

/* replay.PageOfStream */ SELECT e.sequence, e.stream_id, coalesce(e.topic, 'default'), coalesce(e.routing_key, e.stream_id)
  FROM "public"."events" AS e
 WHERE e.sequence > $1 AND e.sequence <= $2
   AND
       NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($4::text IS NULL OR e.event_type::text = $4)
   AND ($5::text IS NULL OR e.topic = $5)
   AND ($6::text IS NULL OR e.tenant_id::text = $6)
   AND ($7::timestamptz IS NULL OR e.recorded_at >= $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at < $8)
   AND NOT EXISTS (SELECT FROM "public".outbox_replay_sequences AS x WHERE x.replay_id = $9 AND x.sequence = e.sequence)
 ORDER BY e.stream_version
 LIMIT $10;

/* replay.CurrentPage */ SELECT e.sequence, e.stream_id, coalesce(e.topic, 'default'), coalesce(e.routing_key, e.stream_id)
  FROM "public"."events" AS e
 WHERE e.sequence > $1 AND e.sequence <= $2
   AND
       NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($4::text IS NULL OR e.event_type::text = $4)
   AND ($5::text IS NULL OR e.topic = $5)
   AND ($6::text IS NULL OR e.tenant_id::text = $6)
   AND ($7::timestamptz IS NULL OR e.recorded_at >= $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at < $8)
   AND
       NOT EXISTS (SELECT FROM "public"."events" AS l
                    WHERE l.stream_id = e.stream_id AND l.stream_version > e.stream_version AND l.sequence <= $9::bigint
                      AND
                      NOT coalesce(l.audit_only, false)
                  AND ($3::text IS NULL OR l.stream_id = $3)
                  AND ($4::text IS NULL OR l.event_type::text = $4)
                  AND ($5::text IS NULL OR l.topic = $5)
                  AND ($6::text IS NULL OR l.tenant_id::text = $6)
                  AND ($7::timestamptz IS NULL OR l.recorded_at >= $7)
                  AND ($8::timestamptz IS NULL OR l.recorded_at < $8)
                  )
   AND NOT EXISTS (SELECT FROM "public".outbox_replay_sequences AS x WHERE x.replay_id = $10 AND x.sequence = e.sequence)
 ORDER BY e.sequence
 LIMIT $11;

/* replay.CurrentPageOfStream */ SELECT e.sequence, e.stream_id, coalesce(e.topic, 'default'), coalesce(e.routing_key, e.stream_id)
  FROM "public"."events" AS e
 WHERE e.sequence > $1 AND e.sequence <= $2
   AND
       NOT coalesce(e.audit_only, false)
   AND ($3::text IS NULL OR e.stream_id = $3)
   AND ($4::text IS NULL OR e.event_type::text = $4)
   AND ($5::text IS NULL OR e.topic = $5)
   AND ($6::text IS NULL OR e.tenant_id::text = $6)
   AND ($7::timestamptz IS NULL OR e.recorded_at >= $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at < $8)
   AND
       NOT EXISTS (SELECT FROM "public"."events" AS l
                    WHERE l.stream_id = e.stream_id AND l.stream_version > e.stream_version AND l.sequence <= $9::bigint
                      AND
                      NOT coalesce(l.audit_only, false)
                  AND ($3::text IS NULL OR l.stream_id = $3)
                  AND ($4::text IS NULL OR l.event_type::text = $4)
                  AND ($5::text IS NULL OR l.topic = $5)
                  AND ($6::text IS NULL OR l.tenant_id::text = $6)
                  AND ($7::timestamptz IS NULL OR l.recorded_at >= $7)
                  AND ($8::timestamptz IS NULL OR l.recorded_at < $8)
                  )
   AND NOT EXISTS (SELECT FROM "public".outbox_replay_sequences AS x WHERE x.replay_id = $10 AND x.sequence = e.sequence)
 ORDER BY e.stream_version
 LIMIT $11;

-- delivery/ops/resize/sql/*.sql

/* resize.LockOutbox */ LOCK TABLE "public".outbox, "public".outbox_ready, "public".outbox_parked IN EXCLUSIVE MODE;

/* resize.LimitWaits */ SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true),
       set_config('statement_timeout', '0', true), CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', true) END;

/* resize.Holders */ SELECT coalesce(string_agg(DISTINCT CASE WHEN l.pid IS NULL THEN 'prepared transaction ' || coalesce(quote_literal(x.gid), '')
                                         ELSE format('pid %s (%s, %s s)', l.pid, coalesce(nullif(a.application_name, ''), 'unnamed'),
                                                     greatest(extract(epoch FROM clock_timestamp() - a.xact_start)::int, 0)) END, ', '),
                'nobody any more')
  FROM pg_locks AS l
  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
  LEFT JOIN pg_prepared_xacts AS x ON l.pid IS NULL AND l.virtualtransaction = '-1/' || x.transaction
 WHERE l.locktype = 'relation' AND l.granted AND l.mode <> 'AccessShareLock' AND l.pid IS DISTINCT FROM pg_backend_pid()
   AND l.relation IN ('"public".outbox'::regclass, '"public".outbox_ready'::regclass, '"public".outbox_parked'::regclass)
   AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database());

/* resize.Count */ SELECT partition_count FROM "public".outbox_settings;

/* resize.LockCount */ SELECT partition_count FROM "public".outbox_settings FOR UPDATE;

/* resize.HoldLeases */ SELECT (SELECT count(*) FROM "public".outbox_partitions), count(*)
  FROM (SELECT p.partition_key FROM unnest($1::smallint[], $2::bigint[]) AS mine (partition_key, epoch)
          JOIN "public".outbox_partitions AS p USING (partition_key)
         WHERE p.lease_owner = $3 AND p.lease_epoch = mine.epoch
         ORDER BY p.partition_key FOR UPDATE OF p) AS h;

/* resize.Paused */ SELECT coalesce(array_agg(partition_key ORDER BY partition_key) FILTER (WHERE paused_at IS NOT NULL), '{}'), min(paused_at), count(*)
  FROM "public".outbox_partitions;

/* resize.PlanMoves */ SELECT count(*) FILTER (WHERE p.before <> p.partition_key), count(*) FILTER (WHERE p.after <> p.partition_key)
  FROM (
SELECT o.partition_key, o.global_sequence, o.parked,
       "public".outbox_hash_partition("public".outbox_xxhash64(convert_to(coalesce(e.routing_key, o.stream_id), 'UTF8')), $1::int) AS before,
       "public".outbox_hash_partition("public".outbox_xxhash64(convert_to(coalesce(e.routing_key, o.stream_id), 'UTF8')), $2::int) AS after
  FROM "public".outbox AS o
  LEFT JOIN "public"."events" AS e ON e.sequence = o.global_sequence
       ) AS p;

/* resize.Move */ WITH placed AS (
SELECT o.partition_key, o.global_sequence, o.parked,
       "public".outbox_hash_partition("public".outbox_xxhash64(convert_to(coalesce(e.routing_key, o.stream_id), 'UTF8')), $1::int) AS before,
       "public".outbox_hash_partition("public".outbox_xxhash64(convert_to(coalesce(e.routing_key, o.stream_id), 'UTF8')), $2::int) AS after
  FROM "public".outbox AS o
  LEFT JOIN "public"."events" AS e ON e.sequence = o.global_sequence
       ),
     foreign_rows AS (
       SELECT count(*) AS n FROM placed WHERE before <> partition_key),
     moved AS (
       UPDATE "public".outbox AS o
          SET partition_key = p.after
         FROM placed AS p, foreign_rows AS f
        WHERE f.n = 0 AND p.after <> p.partition_key
          AND o.partition_key = p.partition_key AND o.global_sequence = p.global_sequence AND o.parked = p.parked
    RETURNING 1)
SELECT (SELECT n FROM foreign_rows), (SELECT count(*) FROM moved);

/* resize.SetCount */ WITH others AS (UPDATE "public".outbox_partitions SET crashes = 0, carrying = false)
UPDATE "public".outbox_settings SET partition_count = $1, generation = generation + 1, resized_at = clock_timestamp(),
       resized_delivery = (SELECT coalesce(max(id), 0) FROM "public".outbox_deliveries);

/* resize.PauseAll */ UPDATE "public".outbox_partitions SET paused_at = $1 WHERE paused_at IS NULL;

-- delivery/pgstore/sql/*.sql

/* delivery.Counting */ SELECT
       set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true);

/* delivery.Probing */ SELECT
       set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)
       , set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true);

/* delivery.Backlog */ SELECT l.partition_key,
       coalesce(ready.pending, 0) + coalesce(parked.pending, 0),
       coalesce(parked.failed, 0), coalesce(parked.blocked, 0), coalesce(parked.dead, 0), coalesce(parked.scheduled, 0),
       coalesce(parked.streams, 0),
       greatest(s.at - least(first.available_at, parked.oldest), interval '0'),
       coalesce(first.global_sequence, l.delivered),
       s.at
  FROM "public".outbox_partitions AS l
 CROSS JOIN (SELECT clock_timestamp() AS at) AS s
  LEFT JOIN (SELECT partition_key, count(*) AS pending
               FROM "public".outbox_ready
              GROUP BY partition_key) AS ready USING (partition_key)
  LEFT JOIN LATERAL (
         SELECT r.global_sequence, CASE WHEN isfinite(r.available_at) THEN r.available_at END AS available_at
           FROM "public".outbox_ready AS r
          WHERE r.partition_key = l.partition_key
          ORDER BY r.global_sequence
          LIMIT 1) AS first ON true
  LEFT JOIN (SELECT partition_key,
                    count(*) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts = 0 AND (scheduled_for IS NULL OR available_at <= clock_timestamp())) AS pending,
                    count(*) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts > 0)  AS failed,
                    count(*) FILTER (WHERE dead_at IS NULL AND blocked)                       AS blocked,
                    count(DISTINCT stream_id) FILTER (WHERE dead_at IS NULL AND blocked)      AS streams,
                    count(*) FILTER (WHERE dead_at IS NOT NULL)                               AS dead,
                    count(*) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts = 0 AND scheduled_for IS NOT NULL AND available_at > clock_timestamp()) AS scheduled,
                    min(available_at) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts = 0 AND (scheduled_for IS NULL OR available_at <= clock_timestamp())
                                              AND isfinite(available_at)) AS oldest
               FROM "public".outbox_parked
              GROUP BY partition_key) AS parked USING (partition_key)
 ORDER BY l.partition_key;

/* delivery.Oldest */ SELECT l.partition_key, coalesce(first.global_sequence, greatest(l.delivered, mine.start)),
       least(first.available_at, parked.available_at) IS NOT NULL,
       greatest(s.at - least(first.available_at, parked.available_at), interval '0'), s.at
  FROM "public".outbox_partitions AS l
 CROSS JOIN (SELECT clock_timestamp() AS at) AS s
  LEFT JOIN unnest($1::smallint[], $2::bigint[]) AS mine (partition_key, start) USING (partition_key)
  LEFT JOIN LATERAL (
         SELECT r.global_sequence, CASE WHEN isfinite(r.available_at) THEN r.available_at END AS available_at
           FROM "public".outbox_ready AS r
          WHERE r.partition_key = l.partition_key AND r.global_sequence >= coalesce(mine.start, 0)
          ORDER BY r.global_sequence
          LIMIT 1) AS first ON true
  LEFT JOIN LATERAL (
         SELECT min(p.available_at) AS available_at
           FROM (SELECT d.available_at, d.attempts
                   FROM "public".outbox_parked AS d
                  WHERE d.partition_key = l.partition_key AND NOT d.blocked AND d.dead_at IS NULL AND d.available_at <= s.at
                  ORDER BY d.available_at
                  LIMIT 100) AS p
          WHERE p.attempts = 0 AND isfinite(p.available_at)) AS parked ON true
 ORDER BY l.partition_key;

/* delivery.Heads */ SELECT l.partition_key, h.global_sequence, h.topic, h.parked, greatest(s.at - CASE WHEN isfinite(h.available_at) THEN h.available_at END, interval '0')
  FROM "public".outbox_partitions AS l
 CROSS JOIN (SELECT clock_timestamp() AS at) AS s
  LEFT JOIN unnest($1::smallint[], $2::bigint[]) AS mine (partition_key, start) USING (partition_key)
 CROSS JOIN LATERAL (
         (SELECT r.global_sequence, r.topic, r.available_at, false AS parked
            FROM "public".outbox_ready AS r
           WHERE r.partition_key = l.partition_key AND r.global_sequence >= coalesce(mine.start, 0)
           ORDER BY r.global_sequence
           LIMIT $3)
         UNION ALL
         SELECT p.global_sequence, p.topic, p.available_at, true
           FROM (SELECT d.global_sequence, d.topic, d.available_at, d.attempts
                   FROM "public".outbox_parked AS d
                  WHERE d.partition_key = l.partition_key AND NOT d.blocked AND d.dead_at IS NULL AND d.available_at <= s.at
                  ORDER BY d.available_at
                  LIMIT $3) AS p
          WHERE p.attempts = 0) AS h;

/* delivery.DeadTopics */ WITH dead AS (SELECT topic, count(*) AS messages FROM "public".outbox_parked WHERE dead_at IS NOT NULL GROUP BY topic)
(SELECT topic, messages FROM dead ORDER BY topic = ANY ($1::text[]) DESC, messages DESC, topic COLLATE "C" LIMIT $2)
UNION ALL
(SELECT NULL, coalesce(sum(messages), 0)::bigint FROM dead);

/* delivery.DeadSome */ SELECT global_sequence FROM "public".outbox_parked WHERE dead_at IS NOT NULL LIMIT $1;

/* delivery.Begin */ SELECT pg_current_wal_insert_lsn()::text, ARRAY[
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true), set_config('enable_memoize', 'off', true),
       set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
       ];

/* delivery.ClaimParked */ SELECT p.partition_key, p.global_sequence, p.generation, p.attempts, p.stream_id, p.topic,
       p.blocked,
       p.dead_at IS NULL AND (p.available_at <= clock_timestamp() OR
       CASE WHEN p.attempts > 0 THEN p.available_at > clock_timestamp() + $1::interval ELSE p.scheduled_for IS NULL END
       ) AS due,
       p.scheduled_for
  FROM unnest($2::smallint[], $3::bigint[], $4::int[]) AS mine (partition_key, revision, most)
 CROSS JOIN LATERAL (
         SELECT 1 /
       CASE WHEN mine.revision IS NULL OR l.revision BETWEEN mine.revision AND mine.revision + 1 AND l.taken_on = pg_postmaster_start_time() THEN 1 ELSE 0 END
                AS one
           FROM "public".outbox_partitions AS l
          WHERE l.partition_key = mine.partition_key
            AND l.paused_at IS NULL
          LIMIT 1) AS flowing
 CROSS JOIN LATERAL (
         SELECT DISTINCT h.stream_id
           FROM ((SELECT i.stream_id
                    FROM "public".outbox_parked AS i
                   WHERE i.available_at <= clock_timestamp()
                     AND i.partition_key = mine.partition_key
                     AND i.global_sequence <= (SELECT CASE WHEN $5::boolean THEN current_setting('postrider.safe')::bigint ELSE $6 END)
                     AND NOT i.blocked AND i.dead_at IS NULL
                     AND EXISTS (SELECT FROM "public".outbox_parked AS e
                                  WHERE e.partition_key = i.partition_key
                                    AND e.stream_id = i.stream_id
                                    AND e.global_sequence < i.global_sequence
                                    AND NOT ($7::boolean AND e.dead_at IS NOT NULL)) IS NOT TRUE
                   ORDER BY i.available_at
                   LIMIT mine.most)
                  UNION ALL
                 SELECT i.stream_id
                   FROM (VALUES (false, interval '0'), (true, $1::interval)) AS ahead (failed, most)
                   CROSS JOIN LATERAL (
                         SELECT i.stream_id
                           FROM "public".outbox_parked AS i
                          WHERE (i.attempts > 0) = ahead.failed AND i.available_at > clock_timestamp() + ahead.most
                            AND (i.attempts > 0 OR i.scheduled_for IS NULL)
                     AND i.partition_key = mine.partition_key
                     AND i.global_sequence <= (SELECT CASE WHEN $5::boolean THEN current_setting('postrider.safe')::bigint ELSE $6 END)
                     AND NOT i.blocked AND i.dead_at IS NULL
                     AND EXISTS (SELECT FROM "public".outbox_parked AS e
                                  WHERE e.partition_key = i.partition_key
                                    AND e.stream_id = i.stream_id
                                    AND e.global_sequence < i.global_sequence
                                    AND NOT ($7::boolean AND e.dead_at IS NOT NULL)) IS NOT TRUE
                          LIMIT mine.most) AS i) AS h) AS head
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM "public".outbox_parked AS r
          WHERE r.partition_key = mine.partition_key
            AND r.stream_id = head.stream_id
            AND r.global_sequence <= (SELECT CASE WHEN $5::boolean THEN current_setting('postrider.safe')::bigint ELSE $6 END)
            AND NOT ($7::boolean AND r.dead_at IS NOT NULL)
          ORDER BY r.global_sequence
          LIMIT mine.most) AS p
 WHERE flowing.one = 1 AND
(SELECT EXISTS (SELECT FROM "public".outbox_parked))
   AND (SELECT EXISTS (SELECT FROM "public".outbox_parked AS any_parked
                        WHERE any_parked.partition_key = ANY ($2::smallint[])))
 LIMIT $8;

/* delivery.ClaimDue */ SELECT p.partition_key, p.global_sequence, p.generation, p.attempts, p.stream_id, p.topic,
       p.blocked,
       true AS due,
       p.scheduled_for
  FROM unnest($1::smallint[], $2::bigint[], $3::int[]) AS mine (partition_key, revision, most)
 CROSS JOIN LATERAL (
         SELECT 1 /
       CASE WHEN mine.revision IS NULL OR l.revision BETWEEN mine.revision AND mine.revision + 1 AND l.taken_on = pg_postmaster_start_time() THEN 1 ELSE 0 END
                AS one
           FROM "public".outbox_partitions AS l
          WHERE l.partition_key = mine.partition_key
            AND l.paused_at IS NULL
          LIMIT 1) AS flowing
 CROSS JOIN LATERAL (
         (SELECT r.*
            FROM "public".outbox_parked AS r
           WHERE r.available_at <= clock_timestamp()
             AND r.partition_key = mine.partition_key
             AND r.global_sequence <= (SELECT CASE WHEN $4::boolean THEN current_setting('postrider.safe')::bigint ELSE $5 END)
             AND NOT r.blocked AND r.dead_at IS NULL
           ORDER BY r.available_at
           LIMIT mine.most)
          UNION ALL
         SELECT r.*
                   FROM (VALUES (false, interval '0'), (true, $6::interval)) AS ahead (failed, most)
          CROSS JOIN LATERAL (
                 SELECT r.*
                   FROM "public".outbox_parked AS r
                  WHERE (r.attempts > 0) = ahead.failed AND r.available_at > clock_timestamp() + ahead.most
                    AND (r.attempts > 0 OR r.scheduled_for IS NULL)
             AND r.partition_key = mine.partition_key
             AND r.global_sequence <= (SELECT CASE WHEN $4::boolean THEN current_setting('postrider.safe')::bigint ELSE $5 END)
             AND NOT r.blocked AND r.dead_at IS NULL
                  LIMIT mine.most) AS r) AS p
 WHERE flowing.one = 1
 LIMIT $7;

/* delivery.ClaimReady */ SELECT o.partition_key, o.global_sequence, o.generation, o.attempts, o.stream_id, o.topic,
(SELECT EXISTS (SELECT FROM "public".outbox_parked))
   AND (SELECT EXISTS (SELECT FROM "public".outbox_parked AS any_parked
                        WHERE any_parked.partition_key = ANY ($1::smallint[])))
       AND NOT $2::boolean
       AND EXISTS (SELECT FROM "public".outbox_parked AS p
                    WHERE p.partition_key = o.partition_key
                      AND p.stream_id = o.stream_id
                      AND p.global_sequence < o.global_sequence
                      AND p.replay_id IS NULL
                      AND NOT ($3::boolean AND p.dead_at IS NOT NULL)) AS blocked,
       o.scheduled_for IS NULL OR o.available_at <= clock_timestamp() AS due
  FROM unnest($1::smallint[], $4::bigint[], $5::bigint[], $6::int[]) AS mine (partition_key, revision, after, most)
 CROSS JOIN LATERAL (
         SELECT 1 /
       CASE WHEN mine.revision IS NULL OR l.revision BETWEEN mine.revision AND mine.revision + 1 AND l.taken_on = pg_postmaster_start_time() THEN 1 ELSE 0 END
                AS one
           FROM "public".outbox_partitions AS l
          WHERE l.partition_key = mine.partition_key
            AND l.paused_at IS NULL
          LIMIT 1) AS flowing
 CROSS JOIN LATERAL (
         SELECT r.partition_key, r.global_sequence, r.generation, r.attempts, r.stream_id, r.topic, r.available_at, r.scheduled_for
           FROM "public".outbox_ready AS r
          WHERE r.partition_key = mine.partition_key
            AND r.global_sequence > mine.after
            AND r.global_sequence <= (SELECT CASE WHEN $7::boolean THEN current_setting('postrider.safe')::bigint ELSE $8 END)
          ORDER BY r.global_sequence
          LIMIT mine.most) AS o
 WHERE flowing.one = 1
 LIMIT $9;

/* delivery.ClaimLittle */ SELECT c.*, coalesce(e.sequence, 0), e.event_id, e.stream_version, e.event_type, e.size, e.payload,
       e.traceparent, e.tracestate, e.headers, e.correlation_id, e.causation_id, e.tenant_id, coalesce(e.audit_only, false), e.occurred_at, e.recorded_at
  FROM (
SELECT o.partition_key, o.global_sequence, o.generation, o.attempts, o.stream_id, o.topic,
(SELECT EXISTS (SELECT FROM "public".outbox_parked))
   AND (SELECT EXISTS (SELECT FROM "public".outbox_parked AS any_parked
                        WHERE any_parked.partition_key = ANY ($1::smallint[])))
       AND NOT $2::boolean
       AND EXISTS (SELECT FROM "public".outbox_parked AS p
                    WHERE p.partition_key = o.partition_key
                      AND p.stream_id = o.stream_id
                      AND p.global_sequence < o.global_sequence
                      AND p.replay_id IS NULL
                      AND NOT ($3::boolean AND p.dead_at IS NOT NULL)) AS blocked,
       o.scheduled_for IS NULL OR o.available_at <= clock_timestamp() AS due
  FROM unnest($1::smallint[], $4::bigint[], $5::bigint[], $6::int[]) AS mine (partition_key, revision, after, most)
 CROSS JOIN LATERAL (
         SELECT 1 /
       CASE WHEN mine.revision IS NULL OR l.revision BETWEEN mine.revision AND mine.revision + 1 AND l.taken_on = pg_postmaster_start_time() THEN 1 ELSE 0 END
                AS one
           FROM "public".outbox_partitions AS l
          WHERE l.partition_key = mine.partition_key
            AND l.paused_at IS NULL
          LIMIT 1) AS flowing
 CROSS JOIN LATERAL (
         SELECT r.partition_key, r.global_sequence, r.generation, r.attempts, r.stream_id, r.topic, r.available_at, r.scheduled_for
           FROM "public".outbox_ready AS r
          WHERE r.partition_key = mine.partition_key
            AND r.global_sequence > mine.after
            AND r.global_sequence <= (SELECT CASE WHEN $7::boolean THEN current_setting('postrider.safe')::bigint ELSE $8 END)
          ORDER BY r.global_sequence
          LIMIT mine.most) AS o
 WHERE flowing.one = 1
 LIMIT $9
       ) AS c
  LEFT JOIN LATERAL (
SELECT s.sequence, s.event_id, s.stream_version, s.event_type, octet_length(s.payload)::bigint,
       CASE WHEN octet_length(s.payload) <= $10::bigint THEN s.payload END,
       s.metadata ->> 'traceparent', s.metadata ->> 'tracestate', s.metadata -> 'headers',
       s.metadata ->> 'correlation_id', s.metadata ->> 'causation_id',
       s.tenant_id, s.audit_only, s.occurred_at, s.recorded_at
  FROM (SELECT e.sequence, e.event_id, e.stream_version, e.event_type::text, e.metadata AS metadata, e.tenant_id::text, e.recorded_at,
               coalesce(e.audit_only, false) AS audit_only, e.occurred_at AS occurred_at, e.payload AS payload
          FROM "public"."events" AS e
         WHERE e.sequence = ANY (ARRAY[c.global_sequence]::bigint[])
        OFFSET 0) AS s) AS e (sequence, event_id, stream_version, event_type, size, payload, traceparent, tracestate,
                                    headers, correlation_id, causation_id, tenant_id, audit_only, occurred_at, recorded_at) ON c.due AND NOT c.blocked;

/* delivery.Server */ SELECT s.generation, pg_postmaster_start_time(),
       EXISTS (SELECT FROM "public".outbox_parked AS p WHERE NOT p.blocked AND p.dead_at IS NULL)
  FROM "public".outbox_settings AS s;

/* delivery.LogPosition */ SELECT pg_current_wal_insert_lsn()::text;

/* delivery.Planning */ SELECT
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true), set_config('enable_memoize', 'off', true),
       set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true);

/* delivery.Reading */ SELECT
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true), set_config('enable_memoize', 'off', true),
       set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
       , 1 / CASE WHEN pg_postmaster_start_time() <> $1::timestamptz THEN 0 ELSE 1 END;

/* delivery.Rehydrate */ SELECT s.sequence, s.event_id, s.stream_version, s.event_type, octet_length(s.payload)::bigint,
       CASE WHEN octet_length(s.payload) <= $1::bigint THEN s.payload END,
       s.metadata ->> 'traceparent', s.metadata ->> 'tracestate', s.metadata -> 'headers',
       s.metadata ->> 'correlation_id', s.metadata ->> 'causation_id',
       s.tenant_id, s.audit_only, s.occurred_at, s.recorded_at
  FROM (SELECT e.sequence, e.event_id, e.stream_version, e.event_type::text, e.metadata AS metadata, e.tenant_id::text, e.recorded_at,
               coalesce(e.audit_only, false) AS audit_only, e.occurred_at AS occurred_at, e.payload AS payload
          FROM "public"."events" AS e
         WHERE e.sequence = ANY ($2::bigint[]) AND e.sequence BETWEEN $3::bigint AND $4::bigint
        OFFSET 0) AS s;

/* delivery.LetGo */ SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;

/* delivery.EventTypes */ SELECT e.sequence, coalesce(e.event_type::text, '') FROM "public"."events" AS e WHERE e.sequence = ANY ($1::bigint[]);

/* delivery.Heal */ WITH held AS MATERIALIZED (
       SELECT p.partition_key
         FROM "public".outbox_partitions AS p
        WHERE p.partition_key = $1 AND p.lease_owner IS NOT DISTINCT FROM $2 AND p.lease_epoch = $3),
     page AS MATERIALIZED (
       SELECT d.id, d.first_sequence, d.last_sequence
         FROM "public".outbox_deliveries AS d
        WHERE d.partition_key = $1 AND (d.first_sequence, d.id) < ($4, $5)
          AND EXISTS (SELECT FROM held)
          AND d.id > (SELECT coalesce(s.resized_delivery, 0) FROM "public".outbox_settings AS s)
          AND d.published_at > coalesce(clock_timestamp() - $6::interval, '-infinity')
          AND d.last_stream_sequence > $7
          AND (d.lost_after IS NULL OR d.lost_after > $7)
        ORDER BY d.first_sequence DESC, d.id DESC
        LIMIT $8),
     settled AS (
       UPDATE "public".outbox_partitions AS p
          SET fence_sequence  = least(p.fence_sequence, $7),
              stream_sequence = least(p.stream_sequence, $7),
              lost_sequence   = 0,
              stream_life     = $9,
              updated_at      = clock_timestamp()
         FROM held
        WHERE p.partition_key = held.partition_key AND (SELECT count(*) FROM page) < $8),
     lost AS (
       UPDATE "public".outbox_deliveries AS d
          SET lost_after = $7
         FROM page
        WHERE d.id = page.id
    RETURNING d.*),
     later AS MATERIALIZED (
       SELECT k.sequence::bigint AS sequence, max(d.id) AS id
         FROM "public".outbox_deliveries AS d
        CROSS JOIN LATERAL jsonb_object_keys(d.generations) AS k (sequence)
        WHERE d.generations IS NOT NULL AND d.partition_key = $1
          AND d.id > (SELECT min(page.id) FROM page)
          AND d.first_sequence <= (SELECT max(page.last_sequence) FROM page)
          AND d.last_sequence >= (SELECT min(page.first_sequence) FROM page)
        GROUP BY 1),
     entries AS (
       SELECT DISTINCT ON (s.sequence)
              lost.partition_key, s.sequence,
              coalesce((lost.generations ->> s.sequence::text)::int, 0) AS generation
         FROM lost
        CROSS JOIN LATERAL unnest(
                coalesce(lost.sequences, ARRAY(SELECT generate_series(lost.first_sequence, lost.last_sequence))),
                lost.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
         LEFT JOIN later ON later.sequence = s.sequence
        WHERE (CASE WHEN lost.stream_sequences IS NULL THEN lost.first_stream_sequence + s.position - 1
                    ELSE s.stream_sequence END) > $7
          AND (later.id IS NULL OR later.id <= lost.id)
        ORDER BY s.sequence, lost.id DESC),
     queued AS (
       INSERT INTO "public".outbox_ready (global_sequence, partition_key, generation, stream_id, topic)
       SELECT n.sequence, n.partition_key, n.generation, e.stream_id, e.topic
         FROM entries AS n
         JOIN "public"."events" AS e ON e.sequence = n.sequence
        WHERE NOT EXISTS (SELECT FROM "public".outbox AS o
                           WHERE o.partition_key = n.partition_key AND o.global_sequence = n.sequence)
    RETURNING global_sequence),
     deepest AS (
       SELECT page.first_sequence, page.id FROM page WHERE (SELECT count(*) FROM page) = $8 ORDER BY 1, 2 LIMIT 1)
SELECT (SELECT count(*) FROM held), (SELECT count(*) FROM entries), (SELECT count(*) FROM queued),
       (SELECT first_sequence FROM deepest), (SELECT id FROM deepest);

/* delivery.Concede */ UPDATE "public".outbox_partitions
   SET fence_sequence  = 0,
       stream_sequence = 0,
       lost_sequence   = greatest(lost_sequence, $1),
       stream_life     = $2,
       updated_at      = clock_timestamp()
 WHERE partition_key = $3 AND lease_owner IS NOT DISTINCT FROM $4 AND lease_epoch = $5;

/* delivery.HealOwn */ SELECT FROM "public".outbox_partitions WHERE partition_key = $1 FOR NO KEY UPDATE;

/* delivery.HealFormer */ WITH held AS (
       SELECT p.partition_key
         FROM "public".outbox_partitions AS p
        WHERE p.partition_key = $1 AND p.lease_owner IS NOT DISTINCT FROM $2 AND p.lease_epoch = $3),
     page AS MATERIALIZED (
       SELECT d.id, k.kept
         FROM "public".outbox_settings AS s
         JOIN "public".outbox_deliveries AS d ON d.id <= s.resized_delivery
         JOIN unnest($4::smallint[], $5::bigint[]) AS k (partition_key, kept) USING (partition_key)
        WHERE d.id > $6 AND d.last_stream_sequence > k.kept
          AND d.published_at > coalesce(clock_timestamp() - $7::interval, '-infinity') AND (d.lost_after IS NULL OR d.lost_after > k.kept)
        ORDER BY d.id
        LIMIT $8),
     lost AS (
       UPDATE "public".outbox_deliveries AS d
          SET lost_after = page.kept
         FROM page, held
        WHERE d.id = page.id
    RETURNING d.*),
     later AS MATERIALIZED (
       SELECT k.sequence::bigint AS sequence, max(d.id) AS id
         FROM "public".outbox_deliveries AS d
        CROSS JOIN LATERAL jsonb_object_keys(d.generations) AS k (sequence)
        WHERE d.generations IS NOT NULL AND d.id > (SELECT min(page.id) FROM page)
        GROUP BY 1),
     entries AS (
       SELECT DISTINCT ON (s.sequence)
              s.sequence, coalesce((lost.generations ->> s.sequence::text)::int, 0) AS generation
         FROM lost
        CROSS JOIN LATERAL unnest(
                coalesce(lost.sequences, ARRAY(SELECT generate_series(lost.first_sequence, lost.last_sequence))),
                lost.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
         LEFT JOIN later ON later.sequence = s.sequence
        WHERE (CASE WHEN lost.stream_sequences IS NULL THEN lost.first_stream_sequence + s.position - 1
                    ELSE s.stream_sequence END) > lost.lost_after
          AND (later.id IS NULL OR later.id <= lost.id)
        ORDER BY s.sequence, lost.id DESC),
     placed AS (
       SELECT n.sequence, n.generation, e.stream_id, e.topic,
              "public".outbox_hash_partition(
                "public".outbox_xxhash64(convert_to(coalesce(e.routing_key, e.stream_id), 'UTF8')), s.partition_count) AS partition_key
         FROM entries AS n
         JOIN "public"."events" AS e ON e.sequence = n.sequence
        CROSS JOIN "public".outbox_settings AS s),
     queued AS (
       INSERT INTO "public".outbox (global_sequence, partition_key, generation, parked, blocked, stream_id, topic)
       SELECT n.sequence, n.partition_key, n.generation, true,
              row_number() OVER (PARTITION BY n.partition_key, n.stream_id ORDER BY n.sequence) > 1
              OR EXISTS (SELECT FROM "public".outbox AS p
                          WHERE p.parked AND p.partition_key = n.partition_key AND p.stream_id = n.stream_id
                            AND p.global_sequence < n.sequence),
              n.stream_id, n.topic
         FROM placed AS n
        WHERE NOT EXISTS (SELECT FROM "public".outbox AS o
                           WHERE o.partition_key = n.partition_key AND o.global_sequence = n.sequence)
    RETURNING global_sequence)
SELECT (SELECT count(*) FROM held), (SELECT count(*) FROM entries), (SELECT count(*) FROM queued), (SELECT max(id) FROM page);

/* delivery.HealKnown */ SELECT f.partition_key, f.fence_sequence
  FROM "public".outbox_former_partitions AS f
 CROSS JOIN "public".outbox_settings AS s
 WHERE f.partition_key % s.partition_count = $1::int
 ORDER BY f.partition_key;

/* delivery.HealKeys */ SELECT k.partition_key
  FROM "public".outbox_settings AS s
 CROSS JOIN (SELECT partition_key FROM "public".outbox_partitions
              UNION
             SELECT partition_key FROM "public".outbox_former_partitions) AS k
 WHERE s.resized_at IS NOT NULL
 ORDER BY k.partition_key;

/* delivery.HealTable */ LOCK TABLE "public".outbox IN ROW EXCLUSIVE MODE;

/* delivery.HealLock */ SELECT FROM "public".outbox_partitions ORDER BY partition_key FOR NO KEY UPDATE;

/* delivery.HealSettle */ UPDATE "public".outbox_former_partitions AS f
   SET fence_sequence  = least(f.fence_sequence, k.kept),
       stream_sequence = least(f.stream_sequence, k.kept)
  FROM unnest($1::smallint[], $2::bigint[]) AS k (partition_key, kept)
 WHERE f.partition_key = k.partition_key
   AND EXISTS (SELECT FROM "public".outbox_partitions AS p
                WHERE p.partition_key = $3 AND p.lease_owner IS NOT DISTINCT FROM $4 AND p.lease_epoch = $5);

/* delivery.Marking */ SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '2s', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true), set_config('enable_memoize', 'off', true),
       set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true);

/* delivery.MarkReady */ WITH mine AS (
       SELECT m.partition_key, m.epoch, m.revision, m.delivered, m.fence, m.stream
         FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
                AS m (partition_key, epoch, revision, delivered, fence, stream)
        ORDER BY m.partition_key),
     locked AS (
       SELECT mine.*, own.one
         FROM mine
        CROSS JOIN LATERAL (
                SELECT 1 /
       CASE WHEN mine.revision IS NULL OR l.revision BETWEEN mine.revision AND mine.revision + 1 AND l.taken_on = pg_postmaster_start_time() THEN 1 ELSE 0 END
                       AS one
                  FROM "public".outbox_partitions AS l
                 WHERE l.partition_key = mine.partition_key
                   AND l.lease_owner IS NOT DISTINCT FROM $7 AND l.lease_epoch = mine.epoch
                   FOR NO KEY UPDATE) AS own),
     held AS (
       UPDATE "public".outbox_partitions AS p
          SET revision        = locked.revision + 1,
              delivered       = greatest(p.delivered, locked.delivered),
              fence_sequence  = greatest(p.fence_sequence, locked.fence),
              stream_sequence = greatest(p.stream_sequence, locked.stream),
              crashes         = 0,
              carrying        = false,
              updated_at      = clock_timestamp()
         FROM locked
        WHERE p.partition_key = locked.partition_key AND locked.one = 1
          AND p.lease_owner IS NOT DISTINCT FROM $7 AND p.lease_epoch = locked.epoch
    RETURNING p.partition_key, p.lease_epoch)
   , done AS MATERIALIZED (
       SELECT held.partition_key, held.lease_epoch, d.sequence, d.stream_sequence, d.generation, d.stream_id
         FROM unnest($8::smallint[], $9::bigint[], $10::bigint[], $11::int[], $12::text[])
                AS d (partition_key, sequence, stream_sequence, generation, stream_id)
         JOIN held USING (partition_key)),
     gone AS (
       DELETE FROM "public".outbox_ready AS o
        USING done
        WHERE o.partition_key = ANY (ARRAY[done.partition_key]) AND o.global_sequence = done.sequence
          AND o.stream_id = done.stream_id AND o.generation = done.generation
    RETURNING done.partition_key, done.lease_epoch, done.sequence, done.stream_sequence, o.attempts, o.scheduled_for, done.generation),
     history AS (
       INSERT INTO "public".outbox_deliveries
              (partition_key, lease_epoch, first_sequence, last_sequence, sequences,
               first_stream_sequence, last_stream_sequence, stream_sequences,
               skipped, attempts, generations, scheduled, published_at, message_count)
       SELECT partition_key, lease_epoch, min(sequence), max(sequence),
              CASE WHEN max(sequence) - min(sequence) + 1 > count(*)
                   THEN array_agg(sequence ORDER BY sequence) END,
              min(stream_sequence), max(stream_sequence),
              CASE WHEN max(stream_sequence) - min(stream_sequence) + 1 > count(*) OR count(*) > count(stream_sequence)
                     OR array_agg(stream_sequence ORDER BY sequence) IS DISTINCT FROM array_agg(stream_sequence ORDER BY stream_sequence)
                   THEN array_agg(stream_sequence ORDER BY sequence) END,
              array_agg(sequence ORDER BY sequence) FILTER (WHERE stream_sequence IS NULL),
              jsonb_object_agg(sequence, attempts) FILTER (WHERE attempts > 0),
              jsonb_object_agg(sequence, generation) FILTER (WHERE generation > 0),
              jsonb_object_agg(sequence, scheduled_for) FILTER (WHERE scheduled_for IS NOT NULL),
              clock_timestamp(), count(stream_sequence)
         FROM gone
        GROUP BY partition_key, lease_epoch),
     counted AS (
       INSERT INTO "public".outbox_throughput AS t (minute, partition_key, published, retried, skipped)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, count(stream_sequence),
              count(stream_sequence) FILTER (WHERE attempts > 0),
              count(*) FILTER (WHERE stream_sequence IS NULL)
         FROM gone
        GROUP BY partition_key
       ON CONFLICT (minute, partition_key) DO UPDATE
          SET published = t.published + EXCLUDED.published,
              retried   = t.retried   + EXCLUDED.retried,
              skipped   = t.skipped   + EXCLUDED.skipped)
SELECT partition_key FROM held;

/* delivery.MarkParked */ WITH mine AS (
       SELECT m.partition_key, m.epoch, m.revision, m.delivered, m.fence, m.stream
         FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
                AS m (partition_key, epoch, revision, delivered, fence, stream)
        ORDER BY m.partition_key),
     locked AS (
       SELECT mine.*, own.one
         FROM mine
        CROSS JOIN LATERAL (
                SELECT 1 /
       CASE WHEN mine.revision IS NULL OR l.revision BETWEEN mine.revision AND mine.revision + 1 AND l.taken_on = pg_postmaster_start_time() THEN 1 ELSE 0 END
                       AS one
                  FROM "public".outbox_partitions AS l
                 WHERE l.partition_key = mine.partition_key
                   AND l.lease_owner IS NOT DISTINCT FROM $7 AND l.lease_epoch = mine.epoch
                   FOR NO KEY UPDATE) AS own),
     held AS (
       UPDATE "public".outbox_partitions AS p
          SET revision        = locked.revision + 1,
              delivered       = greatest(p.delivered, locked.delivered),
              fence_sequence  = greatest(p.fence_sequence, locked.fence),
              stream_sequence = greatest(p.stream_sequence, locked.stream),
              crashes         = 0,
              carrying        = false,
              updated_at      = clock_timestamp()
         FROM locked
        WHERE p.partition_key = locked.partition_key AND locked.one = 1
          AND p.lease_owner IS NOT DISTINCT FROM $7 AND p.lease_epoch = locked.epoch
    RETURNING p.partition_key, p.lease_epoch)
   , done AS MATERIALIZED (
       SELECT held.partition_key, held.lease_epoch, d.sequence, d.stream_sequence, d.generation, d.stream_id
         FROM unnest($8::smallint[], $9::bigint[], $10::bigint[], $11::int[], $12::text[])
                AS d (partition_key, sequence, stream_sequence, generation, stream_id)
         JOIN held USING (partition_key)),
     gone AS (
       DELETE FROM "public".outbox_parked AS o
        USING done
        WHERE o.partition_key = ANY (ARRAY[done.partition_key]) AND o.global_sequence = done.sequence
          AND o.stream_id = done.stream_id AND o.generation = done.generation
    RETURNING done.partition_key, done.lease_epoch, done.sequence, done.stream_sequence, o.attempts, o.scheduled_for, done.generation),
     history AS (
       INSERT INTO "public".outbox_deliveries
              (partition_key, lease_epoch, first_sequence, last_sequence, sequences,
               first_stream_sequence, last_stream_sequence, stream_sequences,
               skipped, attempts, generations, scheduled, published_at, message_count)
       SELECT partition_key, lease_epoch, min(sequence), max(sequence),
              CASE WHEN max(sequence) - min(sequence) + 1 > count(*)
                   THEN array_agg(sequence ORDER BY sequence) END,
              min(stream_sequence), max(stream_sequence),
              CASE WHEN max(stream_sequence) - min(stream_sequence) + 1 > count(*) OR count(*) > count(stream_sequence)
                     OR array_agg(stream_sequence ORDER BY sequence) IS DISTINCT FROM array_agg(stream_sequence ORDER BY stream_sequence)
                   THEN array_agg(stream_sequence ORDER BY sequence) END,
              array_agg(sequence ORDER BY sequence) FILTER (WHERE stream_sequence IS NULL),
              jsonb_object_agg(sequence, attempts) FILTER (WHERE attempts > 0),
              jsonb_object_agg(sequence, generation) FILTER (WHERE generation > 0),
              jsonb_object_agg(sequence, scheduled_for) FILTER (WHERE scheduled_for IS NOT NULL),
              clock_timestamp(), count(stream_sequence)
         FROM gone
        GROUP BY partition_key, lease_epoch),
     counted AS (
       INSERT INTO "public".outbox_throughput AS t (minute, partition_key, published, retried, skipped)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, count(stream_sequence),
              count(stream_sequence) FILTER (WHERE attempts > 0),
              count(*) FILTER (WHERE stream_sequence IS NULL)
         FROM gone
        GROUP BY partition_key
       ON CONFLICT (minute, partition_key) DO UPDATE
          SET published = t.published + EXCLUDED.published,
              retried   = t.retried   + EXCLUDED.retried,
              skipped   = t.skipped   + EXCLUDED.skipped)
SELECT partition_key FROM held;

/* delivery.MarkRanges */ WITH mine AS (
       SELECT m.partition_key, m.epoch, m.revision, m.delivered, m.fence, m.stream
         FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
                AS m (partition_key, epoch, revision, delivered, fence, stream)
        ORDER BY m.partition_key),
     locked AS (
       SELECT mine.*, own.one
         FROM mine
        CROSS JOIN LATERAL (
                SELECT 1 /
       CASE WHEN mine.revision IS NULL OR l.revision BETWEEN mine.revision AND mine.revision + 1 AND l.taken_on = pg_postmaster_start_time() THEN 1 ELSE 0 END
                       AS one
                  FROM "public".outbox_partitions AS l
                 WHERE l.partition_key = mine.partition_key
                   AND l.lease_owner IS NOT DISTINCT FROM $7 AND l.lease_epoch = mine.epoch
                   FOR NO KEY UPDATE) AS own),
     held AS (
       UPDATE "public".outbox_partitions AS p
          SET revision        = locked.revision + 1,
              delivered       = greatest(p.delivered, locked.delivered),
              fence_sequence  = greatest(p.fence_sequence, locked.fence),
              stream_sequence = greatest(p.stream_sequence, locked.stream),
              crashes         = 0,
              carrying        = false,
              updated_at      = clock_timestamp()
         FROM locked
        WHERE p.partition_key = locked.partition_key AND locked.one = 1
          AND p.lease_owner IS NOT DISTINCT FROM $7 AND p.lease_epoch = locked.epoch
    RETURNING p.partition_key, p.lease_epoch)
   , batches AS (
       SELECT held.partition_key, held.lease_epoch, m.low, m.high, m.first_stream, m.last_stream, m.dense, m.ascending
         FROM unnest($8::smallint[], $9::int[], $10::int[], $11::bigint[], $12::bigint[], $13::boolean[], $14::boolean[])
                AS m (partition_key, low, high, first_stream, last_stream, dense, ascending)
         JOIN held USING (partition_key)),
     rows AS (
       SELECT partition_key, min(low) AS low, max(high) AS high
         FROM batches
        GROUP BY partition_key),
     gone AS (
       DELETE FROM "public".outbox_ready AS o
        USING batches
        WHERE o.partition_key = ANY (ARRAY[batches.partition_key])
          AND o.global_sequence BETWEEN ($15::bigint[])[batches.low] AND ($15::bigint[])[batches.high]
          AND o.generation = 0
    RETURNING o.partition_key, o.global_sequence),
     found AS (
       SELECT partition_key, array_agg(global_sequence ORDER BY global_sequence) AS sequences
         FROM gone
        GROUP BY partition_key),
     history AS (
       INSERT INTO "public".outbox_deliveries
              (partition_key, lease_epoch, first_sequence, last_sequence, sequences,
               first_stream_sequence, last_stream_sequence, stream_sequences, published_at, message_count)
       SELECT partition_key, lease_epoch, ($15::bigint[])[low], ($15::bigint[])[high],
              CASE WHEN NOT dense THEN ($15::bigint[])[low:high] END,
              first_stream, last_stream,
              CASE WHEN NOT ascending THEN ($16::bigint[])[low:high] END,
              clock_timestamp(), high - low + 1
         FROM batches),
     counted AS (
       INSERT INTO "public".outbox_throughput AS t (minute, partition_key, published, retried, skipped)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, high - low + 1, 0, 0
         FROM rows
       ON CONFLICT (minute, partition_key) DO UPDATE
          SET published = t.published + EXCLUDED.published)
SELECT rows.partition_key,
       1 / CASE WHEN found.sequences = ($15::bigint[])[rows.low:rows.high] THEN 1 ELSE 0 END
  FROM rows
  LEFT JOIN found USING (partition_key);

/* delivery.Park */ WITH locked AS (
       SELECT f.partition_key, mine.epoch
         FROM unnest($1::smallint[], $2::bigint[]) AS mine (partition_key, epoch)
         JOIN "public".outbox_partitions AS f USING (partition_key)
        WHERE f.lease_owner IS NOT DISTINCT FROM $3 AND f.lease_epoch = mine.epoch
        ORDER BY f.partition_key
          FOR NO KEY UPDATE OF f),
     held AS (
       UPDATE "public".outbox_partitions AS p
          SET updated_at = clock_timestamp()
         FROM locked
        WHERE p.partition_key = locked.partition_key
          AND p.lease_owner IS NOT DISTINCT FROM $3 AND p.lease_epoch = locked.epoch
    RETURNING p.partition_key),
     failed AS MATERIALIZED (
       SELECT held.partition_key, d.sequence, d.stream_id, d.attempts, d.counted, d.delay, d.dead, d.blocked, d.reason, d.class
         FROM unnest($4::smallint[], $5::bigint[], $6::text[], $7::int[], $8::int[], $9::interval[], $10::boolean[], $11::boolean[], $12::text[], $13::text[])
                AS d (partition_key, sequence, stream_id, attempts, counted, delay, dead, blocked, reason, class)
         JOIN held USING (partition_key)),
     moved AS (
       UPDATE "public".outbox AS o
          SET parked       = true,
              blocked      = failed.blocked,
              attempts     = o.attempts + failed.counted,
              available_at = CASE WHEN failed.counted > 0 THEN clock_timestamp() + failed.delay ELSE o.available_at END,
              dead_at      = CASE WHEN failed.dead THEN clock_timestamp() ELSE o.dead_at END,
              last_error   = coalesce(failed.reason, o.last_error),
              failures     = CASE WHEN failed.counted > 0
                                  THEN CASE WHEN jsonb_array_length(o.failures) >= 10 THEN o.failures - 0 ELSE coalesce(o.failures, '[]') END
                                       || jsonb_build_object('at', clock_timestamp(), 'worker_id', $3::uuid, 'class', failed.class, 'text', failed.reason)
                                  ELSE o.failures END
         FROM failed
        WHERE o.partition_key = ANY (ARRAY[failed.partition_key]) AND o.global_sequence = failed.sequence
          AND o.stream_id = failed.stream_id AND o.attempts = failed.attempts
    RETURNING failed.partition_key, failed.counted),
     counted AS (
       INSERT INTO "public".outbox_throughput AS t (minute, partition_key, failed)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, sum(counted)
         FROM moved
        GROUP BY partition_key
       HAVING sum(counted) > 0
       ON CONFLICT (minute, partition_key) DO UPDATE SET failed = t.failed + EXCLUDED.failed)
SELECT partition_key FROM held;

/* delivery.Promote */ WITH mine AS MATERIALIZED (
       SELECT s.partition_key, s.stream_id
         FROM (SELECT DISTINCT u.partition_key, u.stream_id
                 FROM unnest($1::smallint[], $2::text[]) AS u (partition_key, stream_id)) AS s
         JOIN unnest($3::smallint[], $4::bigint[]) AS held (partition_key, epoch) USING (partition_key)
         JOIN "public".outbox_partitions AS l USING (partition_key)
        WHERE l.lease_owner IS NOT DISTINCT FROM $5 AND l.lease_epoch = held.epoch),
     first AS MATERIALIZED (
       SELECT mine.partition_key, mine.stream_id, f.global_sequence
         FROM mine
        CROSS JOIN LATERAL (
                SELECT p.global_sequence
                  FROM "public".outbox_parked AS p
                 WHERE p.partition_key = mine.partition_key AND p.stream_id = mine.stream_id
                   AND NOT ($6::boolean AND p.dead_at IS NOT NULL)
                 ORDER BY p.global_sequence
                 LIMIT 1) AS f)
UPDATE "public".outbox_parked AS p
   SET blocked = false
  FROM first
 WHERE p.partition_key = ANY (ARRAY[first.partition_key])
   AND p.stream_id = first.stream_id
   AND p.global_sequence = first.global_sequence
   AND p.blocked;

/* delivery.Waiting */ SELECT p.partition_key, p.stream_id, min(p.global_sequence)
  FROM unnest($1::smallint[], $2::text[]) AS s (partition_key, stream_id)
  JOIN "public".outbox_parked AS p ON p.partition_key = s.partition_key AND p.stream_id = s.stream_id
 WHERE p.replay_id IS NULL
   AND CASE WHEN p.dead_at IS NOT NULL THEN NOT $3::boolean ELSE p.blocked OR p.available_at > clock_timestamp() AND NOT
       CASE WHEN p.attempts > 0 THEN p.available_at > clock_timestamp() + $4::interval ELSE p.scheduled_for IS NULL END
       END
 GROUP BY p.partition_key, p.stream_id;

/* delivery.Throughput */ SELECT m.minute, coalesce(t.published, 0)::bigint, coalesce(t.failed, 0)::bigint,
       coalesce(t.retried, 0)::bigint, coalesce(t.skipped, 0)::bigint
  FROM (SELECT date_trunc('minute', statement_timestamp()) - ago * interval '1 minute' AS minute
          FROM generate_series(0, $1::int - 1) AS ago) AS m
 CROSS JOIN LATERAL (
         SELECT least(coalesce(sum(b.published), 0), 9223372036854775807) AS published, least(coalesce(sum(b.failed), 0), 9223372036854775807) AS failed, least(coalesce(sum(b.retried), 0), 9223372036854775807) AS retried, least(coalesce(sum(b.skipped), 0), 9223372036854775807) AS skipped
           FROM "public".outbox_throughput AS b
          WHERE b.minute = m.minute) AS t
 ORDER BY m.minute;

/* delivery.Latency */ SELECT count(*),
       coalesce(percentile_cont(0.5)  WITHIN GROUP (ORDER BY s.seconds), 0),
       coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY s.seconds), 0)
  FROM (SELECT greatest(extract(epoch FROM d.published_at - since.at), 0)::float8 AS seconds
          FROM (SELECT b.first_sequence, b.last_sequence, b.published_at, b.scheduled
                  FROM "public".outbox_deliveries AS b
                 WHERE b.published_at > (SELECT clock_timestamp()) - interval '5 minutes' AND b.published_at <= (SELECT clock_timestamp())
                   AND b.generations IS NULL AND b.message_count > 0
                 ORDER BY b.published_at DESC
                 LIMIT $1) AS d
         CROSS JOIN LATERAL (SELECT d.first_sequence UNION SELECT d.last_sequence) AS v (sequence)
          JOIN "public"."events" AS e ON e.sequence = v.sequence
         CROSS JOIN LATERAL (SELECT greatest(e.recorded_at, (d.scheduled ->> v.sequence::text)::timestamptz)) AS since (at)
         WHERE isfinite(since.at)) AS s;

/* delivery.Recent */ WITH present AS MATERIALIZED (SELECT clock_timestamp() AS at),
     looked AS MATERIALIZED (
       SELECT b.message_count, b.published_at
         FROM "public".outbox_deliveries AS b
        WHERE b.published_at > (SELECT at FROM present) - $1::interval AND b.published_at <= (SELECT at FROM present)
        ORDER BY b.published_at DESC
        LIMIT $2),
     whole AS (
       SELECT CASE WHEN (SELECT count(*) FROM looked) < $2 THEN at - $1::interval
                   ELSE (SELECT min(published_at) FROM looked) END AS since
         FROM present)
SELECT p.at, w.since,
       (SELECT coalesce(sum(d.message_count), 0)::float8 FROM looked AS d WHERE d.published_at > p.at - interval '10 seconds')
       / least(10, greatest(extract(epoch FROM p.at - w.since), 0.1))::float8,
       ARRAY(SELECT s.second FROM (SELECT date_trunc('second', published_at) AS second FROM looked GROUP BY 1) AS s ORDER BY 1),
       ARRAY(SELECT s.published::bigint
               FROM (SELECT date_trunc('second', published_at) AS second, sum(message_count) AS published FROM looked GROUP BY 1) AS s
              ORDER BY s.second)
  FROM present AS p, whole AS w;

/* delivery.Horizon */ SELECT coalesce(max(age(h.xmin)), 0), greatest(max(clock_timestamp() - h.since), interval '0')
  FROM (SELECT x.xmin, a.xact_start AS since
          FROM pg_stat_activity AS a
         CROSS JOIN LATERAL (VALUES (a.backend_xmin), (a.backend_xid)) AS x (xmin) -- who has written and idles has the latter alone
         WHERE x.xmin IS NOT NULL
           AND (a.datname = current_database() OR a.datid IS NULL) AND a.pid <> pg_backend_pid()
           AND a.backend_type <> 'autovacuum worker'
         UNION ALL
        SELECT p.transaction, p.prepared
          FROM pg_prepared_xacts AS p
         WHERE p.database = current_database()
         UNION ALL
        SELECT s.xmin, NULL
          FROM pg_replication_slots AS s
         WHERE s.xmin IS NOT NULL) AS h
HAVING pg_has_role('pg_read_all_stats', 'USAGE');

/* delivery.ReadOnly */ SELECT current_setting('transaction_read_only')::boolean
       AND NOT pg_is_in_recovery()
       AND EXISTS (SELECT FROM pg_catalog.pg_settings AS s
                    WHERE s.name = 'default_transaction_read_only' AND s.setting = 'on'
                      AND s.source NOT IN ('user', 'database user', 'client', 'session'));

/* delivery.RetainDeliveries */ DELETE FROM "public".outbox_deliveries
 WHERE id IN (SELECT id FROM "public".outbox_deliveries
               WHERE published_at < clock_timestamp() - $1::interval
               ORDER BY published_at
               LIMIT $2
                 FOR UPDATE SKIP LOCKED);

/* delivery.RetainDedupe */ DELETE FROM "public".outbox_dedupe_keys
 WHERE (topic, dedupe_key) IN (SELECT topic, dedupe_key FROM "public".outbox_dedupe_keys
               WHERE created_at < clock_timestamp() - $1::interval
                 AND NOT EXISTS (SELECT FROM "public".outbox AS o
                                  WHERE o.partition_key = ANY (ARRAY(SELECT p.partition_key FROM "public".outbox_partitions AS p))
                                    AND o.global_sequence = outbox_dedupe_keys.global_sequence)
               LIMIT $2
                 FOR UPDATE SKIP LOCKED);

/* delivery.RetainThroughput */ DELETE FROM "public".outbox_throughput
 WHERE (minute, partition_key) IN (SELECT minute, partition_key FROM "public".outbox_throughput
               WHERE minute < clock_timestamp() - $1::interval
               ORDER BY minute
               LIMIT $2
                 FOR UPDATE SKIP LOCKED);

/* delivery.RetainOwnership */ DELETE FROM "public".outbox_ownership
 WHERE id IN (SELECT id FROM "public".outbox_ownership
               WHERE id <= (SELECT id FROM "public".outbox_ownership
                             ORDER BY id DESC OFFSET $1 LIMIT 1)
               ORDER BY id
               LIMIT $2);

/* delivery.Undelivered */ SELECT n.sequence, e.event_id, o.global_sequence IS NOT NULL,
       coalesce(o.generation, 0), coalesce(o.attempts, 0), coalesce(o.stream_id, ''), coalesce(o.topic, ''), coalesce(o.parked, false),
       CASE WHEN p.fence_sequence = $1::bigint                            THEN false
            WHEN p.fence_sequence > 0 AND p.fence_sequence < $1::bigint THEN true
            ELSE e.event_id IS NULL
             AND n.sequence >= (SELECT coalesce(min(h.sequence), 0) FROM "public"."events" AS h)
             AND NOT EXISTS (SELECT FROM "public".outbox_deliveries AS d
                              WHERE d.partition_key = $2 AND d.first_sequence <= n.sequence AND d.last_sequence >= n.sequence
                                AND (d.sequences IS NULL OR n.sequence = ANY (d.sequences))) END
  FROM unnest($3::bigint[]) AS n (sequence)
  LEFT JOIN "public"."events" AS e ON e.sequence = n.sequence
  LEFT JOIN "public".outbox_partitions AS p ON p.partition_key = $2
  LEFT JOIN "public".outbox AS o ON o.partition_key = $2 AND o.global_sequence = n.sequence
 ORDER BY n.sequence;

/* delivery.Take */ UPDATE "public".outbox_partitions
   SET revision    = $1,
       stream_life = coalesce(nullif(stream_life, ''), $2),
       taken_on    = pg_postmaster_start_time(),
       updated_at  = clock_timestamp()
 WHERE partition_key = $3 AND lease_owner IS NOT DISTINCT FROM $4 AND lease_epoch = $5
RETURNING fence_sequence, stream_life;

/* delivery.Forgotten */ SELECT l.partition_key
  FROM unnest($1::smallint[], $2::bigint[]) AS mine (partition_key, revision)
  JOIN "public".outbox_partitions AS l USING (partition_key)
 WHERE 0 =
       CASE WHEN mine.revision IS NULL OR l.revision BETWEEN mine.revision AND mine.revision + 1 AND l.taken_on = pg_postmaster_start_time() THEN 1 ELSE 0 END;

/* delivery.Unblock */ UPDATE "public".outbox_parked AS p
   SET blocked = false
 WHERE p.partition_key = (SELECT l.partition_key
                            FROM "public".outbox_partitions AS l
                           WHERE l.partition_key = $1 AND l.lease_owner IS NOT DISTINCT FROM $2 AND l.lease_epoch = $3
                             FOR NO KEY UPDATE)
   AND p.blocked
   AND ($4::boolean
        OR NOT EXISTS (SELECT FROM "public".outbox_parked AS e
                        WHERE e.partition_key = p.partition_key
                          AND e.stream_id = p.stream_id
                          AND e.global_sequence < p.global_sequence
                          AND NOT ($5::boolean AND e.dead_at IS NOT NULL)));

/* delivery.Carrying */ UPDATE "public".outbox_partitions AS p
   SET carrying = $1, updated_at = clock_timestamp()
  FROM (SELECT l.partition_key
          FROM unnest($2::smallint[], $3::bigint[]) AS mine (partition_key, epoch)
          JOIN "public".outbox_partitions AS l USING (partition_key)
         WHERE l.lease_owner IS NOT DISTINCT FROM $4 AND l.lease_epoch = mine.epoch
         ORDER BY l.partition_key
           FOR NO KEY UPDATE OF l) AS held
 WHERE p.partition_key = held.partition_key;

/* delivery.PauseOver */ WITH first AS (
       SELECT o.global_sequence, o.stream_id
         FROM "public".outbox AS o
        WHERE o.partition_key = $1 AND NOT o.blocked AND o.dead_at IS NULL
        ORDER BY o.global_sequence
        LIMIT 1),
     ended AS (
       UPDATE "public".outbox_partitions
          SET crashes    = $2 - 1,
              paused_at  = CASE WHEN EXISTS (SELECT FROM first) THEN coalesce(paused_at, clock_timestamp()) ELSE paused_at END,
              updated_at = clock_timestamp()
        WHERE partition_key = $1 AND lease_owner IS NOT DISTINCT FROM $3 AND lease_epoch = $4 AND crashes >= $2::int
    RETURNING crashes),
     told AS (
       INSERT INTO "public".outbox_audit (actor, action, target, reason, details)
       SELECT 'postrider', 'partition.pause', jsonb_build_object('partitions', ARRAY[$1::int]), $5,
              jsonb_build_object('count', 1, 'sequence', first.global_sequence, 'stream_id', first.stream_id)
         FROM ended, first)
SELECT first.global_sequence, first.stream_id FROM ended, first;

/* delivery.Raise */ UPDATE "public".outbox_partitions
   SET lease_epoch = $1,
       updated_at  = clock_timestamp()
 WHERE partition_key = $2 AND lease_owner IS NOT DISTINCT FROM $3 AND lease_epoch = $4
   AND lease_epoch < $1;

/* delivery.Regress */ WITH raised AS (
       UPDATE "public".outbox_settings AS s
          SET generation = $1::int + 1,
              regressed  = clock_timestamp()
        WHERE s.generation <= $1::int
    RETURNING s.generation),
     audited AS (
       INSERT INTO "public".outbox_audit (actor, action, target, reason, details)
       SELECT 'postrider', 'database.regressed', jsonb_build_object('partition', $2::int), $3,
              jsonb_build_object('generation', raised.generation, 'partition', $2::int)
         FROM raised)
SELECT coalesce((SELECT generation FROM raised), 0);

/* delivery.Advancing */ SELECT set_config('synchronous_commit', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true), set_config('enable_memoize', 'off', true),
       set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true);

/* delivery.Prove */ WITH RECURSIVE leaves (relid) AS (
       SELECT $1::text::regclass::oid
        UNION ALL
       SELECT i.inhrelid FROM pg_inherits AS i JOIN leaves ON i.inhparent = leaves.relid
       ),
     state AS (
       SELECT w.safe_sequence, w.candidate, w.candidate_at, w.holders, w.updated_at,
              greatest(w.safe_sequence, nullif(current_setting('postrider.safe', true), '')::bigint) AS known,
              (SELECT coalesce(max(e.sequence), 0) FROM "public"."events" AS e) AS highest
         FROM "public".outbox_watermark AS w
        WHERE w.id),
     visible AS (
       SELECT CASE WHEN s.highest - s.known <= 100
                   THEN (SELECT count(*) FROM "public"."events" AS e WHERE e.sequence > s.known AND e.sequence <= s.highest) >= s.highest - s.known
                   ELSE false END AS whole
         FROM state AS s),
     writers AS (
       SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') AS holders,
              coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false) AS recovered
         FROM pg_locks AS l
        WHERE NOT (SELECT whole FROM visible)
          AND
          l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'
          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
          AND l.relation IN (SELECT relid FROM leaves)
          AND l.pid IS DISTINCT FROM pg_backend_pid()),
     remaining AS (
       SELECT s.*, v.whole, w.holders AS writers, w.recovered,
              ARRAY(SELECT unnest(s.holders) INTERSECT SELECT unnest(w.holders)) AS still
         FROM state AS s, visible AS v, writers AS w
       OFFSET 0),
     proven AS (
       SELECT r.*,
              CASE WHEN r.candidate IS NOT NULL AND r.still = '{}' AND NOT r.recovered
                   THEN greatest(r.candidate, r.known) ELSE r.known END AS base
         FROM remaining AS r
       OFFSET 0),
     decided AS (
       SELECT p.*,
              CASE WHEN p.highest <= p.known    THEN p.known
                   WHEN p.whole                 THEN p.highest
                   WHEN p.writers = '{}'        THEN p.highest
                   ELSE coalesce((SELECT max(n.sequence)
                                    FROM (SELECT e.sequence, row_number() OVER (ORDER BY e.sequence) AS nth
                                            FROM "public"."events" AS e
                                           WHERE e.sequence > p.base
                                           ORDER BY e.sequence
                                           LIMIT 10000) AS n
                                   WHERE n.sequence = p.base + n.nth), p.base) END AS safe
         FROM proven AS p
       OFFSET 0),
     noted AS (
       SELECT d.*,
              CASE WHEN d.safe >= d.highest  THEN 'none'
                   WHEN d.candidate > d.safe THEN 'kept'
                   ELSE 'new' END AS note
         FROM decided AS d
       OFFSET 0),
     seen AS (
       SELECT n.*,
              n.safe >= n.safe_sequence + $2::int
              OR n.note = 'new'
              OR n.note = 'none' AND n.candidate IS NOT NULL
              OR n.note = 'kept' AND (cardinality(n.still) < cardinality(n.holders) OR n.candidate_at > clock_timestamp()) AS worth
         FROM noted AS n
       OFFSET 0)
SELECT safe, highest, worth, set_config('postrider.safe', safe::text, false) FROM seen;

/* delivery.Advance */ WITH RECURSIVE leaves (relid) AS (
       SELECT $1::text::regclass::oid
        UNION ALL
       SELECT i.inhrelid FROM pg_inherits AS i JOIN leaves ON i.inhparent = leaves.relid
       ),
     state AS (
       SELECT w.safe_sequence, w.candidate, w.candidate_at, w.holders, w.updated_at,
              greatest(w.safe_sequence, nullif(current_setting('postrider.safe', true), '')::bigint) AS known,
              (SELECT coalesce(max(e.sequence), 0) FROM "public"."events" AS e) AS highest
         FROM "public".outbox_watermark AS w
        WHERE w.id),
     visible AS (
       SELECT CASE WHEN s.highest - s.known <= 100
                   THEN (SELECT count(*) FROM "public"."events" AS e WHERE e.sequence > s.known AND e.sequence <= s.highest) >= s.highest - s.known
                   ELSE false END AS whole
         FROM state AS s),
     writers AS (
       SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') AS holders,
              coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false) AS recovered
         FROM pg_locks AS l
        WHERE NOT (SELECT whole FROM visible)
          AND
          l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'
          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
          AND l.relation IN (SELECT relid FROM leaves)
          AND l.pid IS DISTINCT FROM pg_backend_pid()),
     remaining AS (
       SELECT s.*, v.whole, w.holders AS writers, w.recovered,
              ARRAY(SELECT unnest(s.holders) INTERSECT SELECT unnest(w.holders)) AS still
         FROM state AS s, visible AS v, writers AS w
       OFFSET 0),
     proven AS (
       SELECT r.*,
              CASE WHEN r.candidate IS NOT NULL AND r.still = '{}' AND NOT r.recovered
                   THEN greatest(r.candidate, r.known) ELSE r.known END AS base
         FROM remaining AS r
       OFFSET 0),
     decided AS (
       SELECT p.*,
              CASE WHEN p.highest <= p.known    THEN p.known
                   WHEN p.whole                 THEN p.highest
                   WHEN p.writers = '{}'        THEN p.highest
                   ELSE coalesce((SELECT max(n.sequence)
                                    FROM (SELECT e.sequence, row_number() OVER (ORDER BY e.sequence) AS nth
                                            FROM "public"."events" AS e
                                           WHERE e.sequence > p.base
                                           ORDER BY e.sequence
                                           LIMIT 10000) AS n
                                   WHERE n.sequence = p.base + n.nth), p.base) END AS safe
         FROM proven AS p
       OFFSET 0),
     noted AS (
       SELECT d.*,
              CASE WHEN d.safe >= d.highest  THEN 'none'
                   WHEN d.candidate > d.safe THEN 'kept'
                   ELSE 'new' END AS note
         FROM decided AS d
       OFFSET 0),
     seen AS (
       SELECT n.*,
              n.safe >= n.safe_sequence + $2::int
              OR n.note = 'new'
              OR n.note = 'none' AND n.candidate IS NOT NULL
              OR n.note = 'kept' AND (cardinality(n.still) < cardinality(n.holders) OR n.candidate_at > clock_timestamp()) AS worth
         FROM noted AS n
       OFFSET 0)
   , free AS MATERIALIZED (
       SELECT w.id
         FROM "public".outbox_watermark AS w, seen
        WHERE w.id
          AND w.updated_at = seen.updated_at
          AND seen.worth
          FOR NO KEY UPDATE OF w SKIP LOCKED),
     moved AS (
       UPDATE "public".outbox_watermark AS w
          SET safe_sequence = n.safe,
              candidate     = CASE n.note WHEN 'new' THEN n.highest WHEN 'kept' THEN n.candidate END,
              candidate_at  = CASE n.note WHEN 'new' THEN clock_timestamp() WHEN 'kept' THEN least(n.candidate_at, clock_timestamp()) END,
              holders       = CASE n.note WHEN 'new' THEN n.writers WHEN 'kept' THEN n.still END,
              updated_at    = clock_timestamp()
         FROM seen AS n, free
        WHERE w.id = free.id)
SELECT safe, highest, worth, set_config('postrider.safe', safe::text, false) FROM seen;

/* delivery.Writers */ WITH RECURSIVE leaves (relid) AS (
       SELECT $1::text::regclass::oid
        UNION ALL
       SELECT i.inhrelid FROM pg_inherits AS i JOIN leaves ON i.inhparent = leaves.relid
       )
SELECT (SELECT coalesce(max(e.sequence), 0) FROM "public"."events" AS e),
       (SELECT w.safe_sequence FROM "public".outbox_watermark AS w),
       coalesce(array_agg(DISTINCT l.virtualtransaction), '{}'),
       coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false)
  FROM pg_locks AS l
 WHERE
          l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'
          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
   AND l.relation IN (SELECT relid FROM leaves)
   AND l.pid IS DISTINCT FROM pg_backend_pid();

/* delivery.Watermark */ SELECT w.safe_sequence,
       (SELECT coalesce(max(e.sequence), 0) FROM "public"."events" AS e),
       coalesce(clock_timestamp() - CASE WHEN isfinite(w.candidate_at) THEN w.candidate_at END, interval '0'),
       h.pid, h.application_name, h.state, coalesce(clock_timestamp() - coalesce(h.xact_start, h.prepared_at), interval '0'), h.gid
  FROM "public".outbox_watermark AS w
  LEFT JOIN LATERAL (
         SELECT DISTINCT n.pid, n.application_name, n.state, n.xact_start, n.gid, n.prepared_at
           FROM (SELECT l.pid, a.application_name, a.state, a.xact_start, p.gid, p.prepared AS prepared_at,
                        l.virtualtransaction = ANY (w.holders) OR l.virtualtransaction LIKE '-1/%' AS awaited,
                        bool_or(l.virtualtransaction = ANY (w.holders) OR l.virtualtransaction LIKE '-1/%') OVER () AS any_awaited
                   FROM pg_locks AS l
                   LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
                   LEFT JOIN pg_locks AS x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.granted
                                          AND x.virtualtransaction = l.virtualtransaction
                   LEFT JOIN pg_prepared_xacts AS p ON p.transaction = x.transactionid
                  WHERE w.candidate IS NOT NULL
                    AND
          l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'
          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
                    AND l.relation IN (WITH RECURSIVE leaves (relid) AS (
       SELECT $1::text::regclass::oid
        UNION ALL
       SELECT i.inhrelid FROM pg_inherits AS i JOIN leaves ON i.inhparent = leaves.relid
                                              )
                                       SELECT relid FROM leaves)) AS n
          WHERE n.awaited
             OR n.any_awaited AND coalesce(n.xact_start, n.prepared_at) NOT BETWEEN clock_timestamp() - interval '1 second' AND clock_timestamp()) AS h ON true
 WHERE w.id
 ORDER BY coalesce(h.xact_start, h.prepared_at) NULLS LAST, h.pid;

-- delivery/pgstore/sql/checks/*.sql

/* delivery.Exists */ SELECT EXISTS (SELECT
                 FROM pg_attribute
                WHERE attrelid = to_regclass($1) AND attname = 'sequence' AND NOT attisdropped);

/* delivery.Primary */ SELECT 'the server is a standby, which does not show the transactions that are writing events',
       'connect to the primary (target_session_attrs=read-write in --database-url)'
 WHERE pg_is_in_recovery();

/* delivery.Table */ WITH RECURSIVE lineage (relid, root) AS (
       SELECT c.oid, true
         FROM pg_class AS c
        WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')
        UNION
       SELECT i.inhrelid, false
         FROM lineage AS l
         JOIN pg_inherits AS i ON i.inhparent = l.relid),
     family AS (
       SELECT l.relid, l.root, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relkind,
              c.relpersistence, c.relispartition, a.attnum, a.attidentity, a.atthasdef, a.attacl
         FROM lineage AS l
         JOIN pg_class AS c ON c.oid = l.relid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace
         LEFT JOIN pg_attribute AS a ON a.attrelid = l.relid AND a.attname = 'sequence' AND NOT a.attisdropped),
     sequences AS (
       SELECT f.root, f.relid, f.relkind AS tablekind, f.relpersistence AS tablepersistence, s.seqrelid, s.seqcache, s.seqincrement,
              s.seqcycle, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relpersistence
         FROM family AS f
         JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                            AND d.refobjid = f.relid AND d.refobjsubid = f.attnum AND d.deptype = 'i'
         JOIN pg_sequence AS s ON s.seqrelid = d.objid
         JOIN pg_class AS c ON c.oid = s.seqrelid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace)
SELECT detail, cure
  FROM (SELECT 0 AS rank, '' AS name,
               format('%I.%I is a %s: the locks of those who write behind it are not known', n.nspname, c.relname,
                      CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
                                     ELSE 'relation of another kind' END) AS detail,
               'name the table itself with postrider migrate up --events-relation' AS cure
          FROM pg_class AS c
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.oid = to_regclass($1) AND c.relkind NOT IN ('r', 'p')
         UNION ALL
        SELECT 1, f.name,
               format('%s, a part of %s, is a foreign table: the locks of those who write there are not known', f.name, p.name),
               format(CASE WHEN f.relispartition THEN 'ALTER TABLE %2$s DETACH PARTITION %1$s'
                           ELSE 'ALTER FOREIGN TABLE %1$s NO INHERIT %2$s' END, f.name, p.name)
          FROM family AS f
          JOIN pg_inherits AS i ON i.inhrelid = f.relid
          JOIN family AS p ON p.relid = i.inhparent
         WHERE f.relkind NOT IN ('r', 'p')
         UNION ALL
        SELECT 2, f.name,
               format('%s is unlogged: a crash empties it, and its sequences may be used again', f.name),
               format('ALTER TABLE %s SET LOGGED', f.name)
          FROM family AS f
         WHERE f.relkind = 'r' AND f.relpersistence = 'u') AS found
 ORDER BY rank, name;

/* delivery.Identity */ WITH RECURSIVE lineage (relid, root) AS (
       SELECT c.oid, true
         FROM pg_class AS c
        WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')
        UNION
       SELECT i.inhrelid, false
         FROM lineage AS l
         JOIN pg_inherits AS i ON i.inhparent = l.relid),
     family AS (
       SELECT l.relid, l.root, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relkind,
              c.relpersistence, c.relispartition, a.attnum, a.attidentity, a.atthasdef, a.attacl
         FROM lineage AS l
         JOIN pg_class AS c ON c.oid = l.relid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace
         LEFT JOIN pg_attribute AS a ON a.attrelid = l.relid AND a.attname = 'sequence' AND NOT a.attisdropped),
     sequences AS (
       SELECT f.root, f.relid, f.relkind AS tablekind, f.relpersistence AS tablepersistence, s.seqrelid, s.seqcache, s.seqincrement,
              s.seqcycle, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relpersistence
         FROM family AS f
         JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                            AND d.refobjid = f.relid AND d.refobjsubid = f.attnum AND d.deptype = 'i'
         JOIN pg_sequence AS s ON s.seqrelid = d.objid
         JOIN pg_class AS c ON c.oid = s.seqrelid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace)
SELECT detail, cure
  FROM (SELECT f.root, f.name,
               format('%s.sequence is GENERATED BY DEFAULT: an INSERT may bring a number that was drawn before it', f.name) AS detail,
               format('ALTER TABLE %s ALTER COLUMN sequence SET GENERATED ALWAYS', f.name) AS cure
          FROM family AS f
         WHERE f.root AND f.attidentity = 'd'
         UNION ALL
        SELECT f.root, f.name,
               format('%s.sequence is no identity column: an INSERT may bring a number that was drawn before it', f.name),
               format('BEGIN; ALTER TABLE %1$s ALTER COLUMN sequence DROP DEFAULT, ALTER COLUMN sequence SET NOT NULL; '
                      || 'ALTER TABLE %1$s ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY; '
                      || 'SELECT setval(pg_get_serial_sequence(%2$L, ''sequence''), coalesce(max(sequence), 0) + 1, false) FROM %1$s; '
                      || 'COMMIT', f.name, f.name)
          FROM family AS f
         WHERE f.root AND f.attidentity = ''
         UNION ALL
        SELECT f.root, f.name,
               format('%s.sequence draws its numbers from a source of its own and not from that of the whole table', f.name),
               format('ALTER TABLE %s ALTER COLUMN sequence DROP %s', f.name, CASE WHEN f.atthasdef THEN 'DEFAULT' ELSE 'IDENTITY' END)
          FROM family AS f
         WHERE NOT f.root
           AND (EXISTS (SELECT FROM sequences AS s WHERE s.relid = f.relid)
                OR f.atthasdef
                   AND NOT EXISTS (SELECT
                                     FROM pg_attrdef AS a
                                     JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid
                                                        AND d.refclassid = 'pg_class'::regclass
                                     JOIN sequences AS s ON s.root AND s.seqrelid = d.refobjid
                                    WHERE a.adrelid = f.relid AND a.adnum = f.attnum))) AS found
 ORDER BY root DESC, name;

/* delivery.Sequence */ WITH RECURSIVE lineage (relid, root) AS (
       SELECT c.oid, true
         FROM pg_class AS c
        WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')
        UNION
       SELECT i.inhrelid, false
         FROM lineage AS l
         JOIN pg_inherits AS i ON i.inhparent = l.relid),
     family AS (
       SELECT l.relid, l.root, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relkind,
              c.relpersistence, c.relispartition, a.attnum, a.attidentity, a.atthasdef, a.attacl
         FROM lineage AS l
         JOIN pg_class AS c ON c.oid = l.relid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace
         LEFT JOIN pg_attribute AS a ON a.attrelid = l.relid AND a.attname = 'sequence' AND NOT a.attisdropped),
     sequences AS (
       SELECT f.root, f.relid, f.relkind AS tablekind, f.relpersistence AS tablepersistence, s.seqrelid, s.seqcache, s.seqincrement,
              s.seqcycle, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relpersistence
         FROM family AS f
         JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                            AND d.refobjid = f.relid AND d.refobjsubid = f.attnum AND d.deptype = 'i'
         JOIN pg_sequence AS s ON s.seqrelid = d.objid
         JOIN pg_class AS c ON c.oid = s.seqrelid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace)
SELECT format('%s has cache %s, increment %s%s%s: sequences would not ascend one by one%s', name, seqcache, seqincrement,
              CASE WHEN seqcycle THEN ', cycle' END,
              CASE WHEN relpersistence <> 'p' THEN ', is unlogged' END,
              CASE WHEN seqcache <> 1 THEN '; mend it and restart the producers, whose sessions use up what they have cached' END),
       format('ALTER SEQUENCE %s CACHE 1 INCREMENT 1 NO CYCLE', name)
         || CASE WHEN relpersistence <> 'p' THEN format('; ALTER SEQUENCE %s SET LOGGED', name) ELSE '' END
  FROM sequences
 WHERE root
   AND (seqcache <> 1 OR seqincrement <> 1 OR seqcycle
        OR relpersistence <> 'p' AND (tablekind = 'p' OR tablepersistence = 'p'));

/* delivery.Grants */ WITH RECURSIVE lineage (relid, root) AS (
       SELECT c.oid, true
         FROM pg_class AS c
        WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')
        UNION
       SELECT i.inhrelid, false
         FROM lineage AS l
         JOIN pg_inherits AS i ON i.inhparent = l.relid),
     family AS (
       SELECT l.relid, l.root, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relkind,
              c.relpersistence, c.relispartition, a.attnum, a.attidentity, a.atthasdef, a.attacl
         FROM lineage AS l
         JOIN pg_class AS c ON c.oid = l.relid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace
         LEFT JOIN pg_attribute AS a ON a.attrelid = l.relid AND a.attname = 'sequence' AND NOT a.attisdropped),
     sequences AS (
       SELECT f.root, f.relid, f.relkind AS tablekind, f.relpersistence AS tablepersistence, s.seqrelid, s.seqcache, s.seqincrement,
              s.seqcycle, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relpersistence
         FROM family AS f
         JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                            AND d.refobjid = f.relid AND d.refobjsubid = f.attnum AND d.deptype = 'i'
         JOIN pg_sequence AS s ON s.seqrelid = d.objid
         JOIN pg_class AS c ON c.oid = s.seqrelid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace)
   , held AS (
       SELECT 1 AS rank, s.name, a.grantee, string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type DESC) AS privileges,
              format('sequence %s', s.name) AS place, bool_or(a.is_grantable) AS grantable, NULL::oid AS relid
         FROM sequences AS s, aclexplode(coalesce(s.relacl, acldefault('s', s.relowner))) AS a
        WHERE s.root AND a.privilege_type IN ('USAGE', 'UPDATE')
        GROUP BY s.name, a.grantee
        UNION ALL
       SELECT 2, f.name, a.grantee, 'INSERT', format('table %s', f.name), bool_or(a.is_grantable), f.relid
         FROM family AS f, aclexplode(coalesce(f.relacl, acldefault('r', f.relowner))) AS a
        WHERE a.privilege_type = 'INSERT'
        GROUP BY f.relid, f.name, a.grantee
        UNION ALL
       SELECT 3, f.name, a.grantee, 'INSERT (sequence)', format('table %s', f.name), bool_or(a.is_grantable), NULL
         FROM family AS f, aclexplode(f.attacl) AS a
        WHERE a.privilege_type = 'INSERT'
        GROUP BY f.name, a.grantee),
     named AS (
       SELECT h.*, coalesce(quote_ident(r.rolname), 'PUBLIC') AS role,
              CASE WHEN h.grantable THEN ' CASCADE' ELSE '' END AS reach
         FROM held AS h
         LEFT JOIN pg_roles AS r ON r.oid = h.grantee
        WHERE NOT coalesce(r.rolsuper, false)
          AND h.grantee <> (SELECT f.relowner FROM family AS f WHERE f.root))
SELECT format('%s holds %s: a sequence could be drawn before the INSERT that uses it', role,
              string_agg(format('%s on %s', privileges, place), ', ' ORDER BY rank, name)),
       string_agg(
         format('REVOKE %s ON %s FROM %s%s', privileges, place, role, reach)
         || CASE WHEN relid IS NULL OR role = quote_ident(current_user) THEN ''
                 ELSE (SELECT format('; GRANT INSERT (%s) ON %s TO %s',
                                     string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), place, role)
                         FROM pg_attribute AS a
                        WHERE a.attrelid = named.relid AND a.attnum > 0 AND NOT a.attisdropped
                          AND a.attgenerated = '' AND a.attname <> 'sequence') END,
         '; ' ORDER BY rank, name)
  FROM named
 GROUP BY role
 ORDER BY role;

/* delivery.Isolation */ SELECT format('sessions of this worker run with default_transaction_isolation = %L (set by: %s)', setting, source),
       CASE WHEN source IN ('client', 'session')
            THEN 'remove default_transaction_isolation from the options of the connection (--database-url, PGOPTIONS)'
            ELSE format('ALTER ROLE %I IN DATABASE %I SET default_transaction_isolation = ''read committed''',
                        session_user, current_database()) END
  FROM pg_settings
 WHERE name = 'default_transaction_isolation' AND setting <> 'read committed';

/* delivery.Subscription */ WITH RECURSIVE lineage (relid, root) AS (
       SELECT c.oid, true
         FROM pg_class AS c
        WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')
        UNION
       SELECT i.inhrelid, false
         FROM lineage AS l
         JOIN pg_inherits AS i ON i.inhparent = l.relid),
     family AS (
       SELECT l.relid, l.root, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relkind,
              c.relpersistence, c.relispartition, a.attnum, a.attidentity, a.atthasdef, a.attacl
         FROM lineage AS l
         JOIN pg_class AS c ON c.oid = l.relid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace
         LEFT JOIN pg_attribute AS a ON a.attrelid = l.relid AND a.attname = 'sequence' AND NOT a.attisdropped),
     sequences AS (
       SELECT f.root, f.relid, f.relkind AS tablekind, f.relpersistence AS tablepersistence, s.seqrelid, s.seqcache, s.seqincrement,
              s.seqcycle, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relpersistence
         FROM family AS f
         JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                            AND d.refobjid = f.relid AND d.refobjsubid = f.attnum AND d.deptype = 'i'
         JOIN pg_sequence AS s ON s.seqrelid = d.objid
         JOIN pg_class AS c ON c.oid = s.seqrelid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace)
SELECT format('subscription %I writes into %s: it brings numbers that another server drew', s.subname,
              string_agg(f.name, ', ' ORDER BY f.root DESC, f.name)),
       format('DROP SUBSCRIPTION %1$I; or take the table out of its publication and ALTER SUBSCRIPTION %1$I REFRESH PUBLICATION', s.subname)
  FROM family AS f
  JOIN pg_subscription_rel AS r ON r.srrelid = f.relid
  JOIN (SELECT DISTINCT subid, subname FROM pg_stat_subscription) AS s ON s.subid = r.srsubid
 GROUP BY s.subname
 ORDER BY s.subname;

/* delivery.Rule */ WITH RECURSIVE lineage (relid, root) AS (
       SELECT c.oid, true
         FROM pg_class AS c
        WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')
        UNION
       SELECT i.inhrelid, false
         FROM lineage AS l
         JOIN pg_inherits AS i ON i.inhparent = l.relid),
     family AS (
       SELECT l.relid, l.root, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relkind,
              c.relpersistence, c.relispartition, a.attnum, a.attidentity, a.atthasdef, a.attacl
         FROM lineage AS l
         JOIN pg_class AS c ON c.oid = l.relid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace
         LEFT JOIN pg_attribute AS a ON a.attrelid = l.relid AND a.attname = 'sequence' AND NOT a.attisdropped),
     sequences AS (
       SELECT f.root, f.relid, f.relkind AS tablekind, f.relpersistence AS tablepersistence, s.seqrelid, s.seqcache, s.seqincrement,
              s.seqcycle, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relpersistence
         FROM family AS f
         JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                            AND d.refobjid = f.relid AND d.refobjsubid = f.attnum AND d.deptype = 'i'
         JOIN pg_sequence AS s ON s.seqrelid = d.objid
         JOIN pg_class AS c ON c.oid = s.seqrelid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace)
SELECT format('rule %I of %s does something else instead of an INSERT', w.rulename, f.name),
       format('DROP RULE %I ON %s', w.rulename, f.name)
  FROM family AS f
  JOIN pg_rewrite AS w ON w.ev_class = f.relid
 WHERE w.is_instead AND w.ev_type = '3' AND w.ev_enabled <> 'D'
 ORDER BY f.root DESC, f.name, w.rulename;

/* delivery.WriteAll */ SELECT format('%I holds pg_write_all_data: it could draw a sequence before the INSERT that uses it, and must not', r.rolname),
       format('REVOKE pg_write_all_data FROM %I', r.rolname)
  FROM pg_auth_members AS m
  JOIN pg_roles AS r ON r.oid = m.member
 WHERE m.roleid = 'pg_write_all_data'::regrole AND NOT r.rolsuper
 GROUP BY r.rolname
 ORDER BY r.rolname;

/* delivery.Durable */ SELECT format('%I.%I has no trigger outbox_durable that always fires: what is queued may be published before it is on disk', n.nspname, c.relname),
       CASE WHEN g.oid IS NULL
            THEN format('CREATE CONSTRAINT TRIGGER outbox_durable AFTER INSERT ON %I.%I DEFERRABLE INITIALLY DEFERRED '
                        || 'FOR EACH ROW EXECUTE FUNCTION %1$I.outbox_durable(); ', n.nspname, c.relname)
            ELSE '' END || format('ALTER TABLE %I.%I ENABLE ALWAYS TRIGGER outbox_durable', n.nspname, c.relname)
  FROM pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
  LEFT JOIN pg_trigger AS g ON g.tgrelid = c.oid AND g.tgname = 'outbox_durable'
 WHERE c.oid IN (to_regclass('"public".outbox_ready'), to_regclass('"public".outbox_parked'))
   AND g.tgenabled IS DISTINCT FROM 'A'
 ORDER BY c.relname;

/* delivery.Policies */ SELECT format('row-level security of %I.%I applies to %s, which may not see all rows', n.nspname, c.relname, current_user),
       format('ALTER ROLE %I BYPASSRLS (as a superuser), or ALTER TABLE %I.%I %s ROW LEVEL SECURITY', current_user, n.nspname, c.relname,
              CASE WHEN pg_has_role(c.relowner, 'USAGE') THEN 'NO FORCE' ELSE 'DISABLE' END)
  FROM pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relrowsecurity AND row_security_active(c.oid)
   AND (c.oid = to_regclass($1)
        OR c.relnamespace = to_regnamespace('"public"') AND c.relname = ANY ('{events,outbox,outbox_audit,outbox_dedupe_keys,outbox_deliveries,outbox_former_partitions,outbox_ownership,outbox_parked,outbox_partitions,outbox_ready,outbox_replay_sequences,outbox_replays,outbox_schema_version,outbox_settings,outbox_stream_heads,outbox_throughput,outbox_types,outbox_watermark,outbox_workers}'::text[]) AND c.relkind IN ('r', 'p'))
 ORDER BY 1;

/* delivery.Behind */ WITH owned AS MATERIALIZED (
       SELECT q.seqrelid, n.nspname, c.relname, a.attname, coalesce(pg_sequence_last_value(q.seqrelid)::text, 'its begin') AS stands
         FROM pg_sequence AS q
         JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = q.seqrelid AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
         JOIN pg_class AS c ON c.oid = d.refobjid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace
         JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
        WHERE (c.oid = to_regclass($1)
               OR c.relnamespace = to_regnamespace('"public"')
                  AND (c.relname = ANY ('{events,outbox,outbox_audit,outbox_dedupe_keys,outbox_deliveries,outbox_former_partitions,outbox_ownership,outbox_parked,outbox_partitions,outbox_ready,outbox_replay_sequences,outbox_replays,outbox_schema_version,outbox_settings,outbox_stream_heads,outbox_throughput,outbox_types,outbox_watermark,outbox_workers}'::text[]) OR c.relname = ANY ('{inbox_callers,inbox_calls,inbox_consumers,inbox_lanes,inbox_malformed,inbox_parked,inbox_readers,inbox_records,inbox_schema_version,inbox_senders,inbox_streams}'::text[]) AND to_regclass('"public".inbox_schema_version') IS NOT NULL))
          AND c.relkind IN ('r', 'p') AND a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
          AND has_sequence_privilege(q.seqrelid, 'USAGE, SELECT') AND has_column_privilege(c.oid, a.attnum, 'SELECT') AND NOT row_security_active(c.oid))
SELECT format('the sequence %s stands at %s and %I.%I holds %s: inserts fail with 23505', o.seqrelid::regclass, o.stands, o.nspname, o.relname, m.held),
       format('SELECT setval(%L, %s)', o.seqrelid::regclass, m.held)
  FROM owned AS o
 CROSS JOIN LATERAL (
       SELECT substring(query_to_xml(format('SELECT max(%I) AS held FROM %I.%I', o.attname, o.nspname, o.relname), false, false, '')::text
                        FROM '<held>([0-9]+)</held>')::bigint AS held OFFSET 0) AS m
 WHERE m.held > coalesce(pg_sequence_last_value(o.seqrelid), 0)
 ORDER BY 1;

/* delivery.Writes */ WITH RECURSIVE lineage (relid, root) AS (
       SELECT c.oid, true
         FROM pg_class AS c
        WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p')
        UNION
       SELECT i.inhrelid, false
         FROM lineage AS l
         JOIN pg_inherits AS i ON i.inhparent = l.relid),
     family AS (
       SELECT l.relid, l.root, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relkind,
              c.relpersistence, c.relispartition, a.attnum, a.attidentity, a.atthasdef, a.attacl
         FROM lineage AS l
         JOIN pg_class AS c ON c.oid = l.relid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace
         LEFT JOIN pg_attribute AS a ON a.attrelid = l.relid AND a.attname = 'sequence' AND NOT a.attisdropped),
     sequences AS (
       SELECT f.root, f.relid, f.relkind AS tablekind, f.relpersistence AS tablepersistence, s.seqrelid, s.seqcache, s.seqincrement,
              s.seqcycle, format('%I.%I', n.nspname, c.relname) AS name, c.relowner, c.relacl, c.relpersistence
         FROM family AS f
         JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                            AND d.refobjid = f.relid AND d.refobjsubid = f.attnum AND d.deptype = 'i'
         JOIN pg_sequence AS s ON s.seqrelid = d.objid
         JOIN pg_class AS c ON c.oid = s.seqrelid
         JOIN pg_namespace AS n ON n.oid = c.relnamespace)
   , acl AS (
       SELECT f.name, a.grantee, a.privilege_type, f.relowner
         FROM family AS f, aclexplode(coalesce(f.relacl, acldefault('r', f.relowner))) AS a
        UNION ALL
       SELECT f.name, a.grantee, a.privilege_type, f.relowner
         FROM family AS f
         JOIN pg_attribute AS c ON c.attrelid = f.relid AND NOT c.attisdropped
        CROSS JOIN aclexplode(c.attacl) AS a),
     held AS (
       SELECT name AS place, grantee, string_agg(DISTINCT privilege_type, ', ') AS privileges
         FROM acl
        WHERE privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
          AND NOT pg_has_role(relowner, 'USAGE')
          AND (grantee = 0 OR pg_has_role(grantee, 'USAGE'))
        GROUP BY name, grantee
        UNION ALL
       SELECT 'all tables', 'pg_write_all_data'::regrole, 'INSERT, UPDATE, DELETE'
         FROM family AS f
        WHERE f.root AND NOT pg_has_role(f.relowner, 'USAGE') AND pg_has_role('pg_write_all_data', 'USAGE')),
     named AS (
       SELECT h.*, coalesce(quote_ident(r.rolname), 'PUBLIC') AS role
         FROM held AS h
         LEFT JOIN pg_roles AS r ON r.oid = h.grantee)
SELECT format('the relay''s role %I may write (%s on %s%s), and must never do it: it would hold back its own watermark',
              current_user, privileges, place, CASE WHEN role <> quote_ident(current_user) THEN ' through ' || role END),
       CASE WHEN role IN ('PUBLIC', quote_ident(current_user)) THEN format('REVOKE %s ON %s FROM %s', privileges, place, role)
            ELSE format('REVOKE %s FROM %I', role, current_user) END
  FROM named
 ORDER BY place, role;

/* delivery.Statistics */ SELECT format('role %I lacks pg_read_all_stats: of a transaction that holds back the order only the process id can be named, '
              || 'not the application and not its age', current_user),
       format('GRANT pg_read_all_stats TO %I', current_user)
 WHERE NOT pg_has_role('pg_read_all_stats', 'USAGE');

/* delivery.Idle */ SELECT 'idle_in_transaction_session_timeout is 0: a producer that goes idle inside its transaction holds back the order for ever',
       format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = ''1min''', current_database())
  FROM pg_settings
 WHERE name = 'idle_in_transaction_session_timeout' AND setting = '0'
   AND source NOT IN ('user', 'database user', 'client', 'session');

/* delivery.Prepared */ SELECT format('PostgreSQL %s gives prepared transactions new names: behind a gap order waits until none at all is prepared',
              current_setting('server_version')),
       'upgrade to 14.1 or newer, or have producers not prepare their transactions'
 WHERE current_setting('server_version_num')::int < 140001
   AND current_setting('max_prepared_transactions')::int > 0;

/* delivery.Server */ SELECT pg_catalog.current_setting('server_version_num')::int, pg_catalog.current_setting('server_version'), pg_catalog.pg_is_in_recovery(),
       pg_catalog.current_setting('search_path'), pg_catalog.current_setting('fsync'), pg_catalog.current_setting('synchronous_commit'),
       pg_catalog.current_setting('server_encoding'), pg_catalog.current_setting('client_encoding');

/* delivery.Regressed */ SELECT regressed, coalesce(regressed > clock_timestamp() - interval '1 day', false) FROM "public".outbox_settings;

/* delivery.Room */ SELECT t.name, t.churns,
       coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint,
       coalesce(sum(s.n_live_tup), 0)::bigint, coalesce(sum(s.n_dead_tup), 0)::bigint,
       pg_catalog.current_setting('autovacuum') = 'off'
         OR coalesce(bool_or(EXISTS (SELECT FROM pg_catalog.pg_options_to_table(c.reloptions) AS o
                                      WHERE o.option_name = 'autovacuum_enabled' AND o.option_value IN ('false', 'off', 'no', '0'))), false)
  FROM (VALUES ($1::text, 'events', false), ('"public".outbox_ready', 'outbox_ready', true), ('"public".outbox_parked', 'outbox_parked', true),
               ('"public".outbox_partitions', 'outbox_partitions', true), ('"public".outbox_workers', 'outbox_workers', true),
               ('"public".outbox_watermark', 'outbox_watermark', true), ('"public".outbox_throughput', 'outbox_throughput', true),
               ('"public".outbox_deliveries', 'outbox_deliveries', true), ('"public".outbox_audit', 'outbox_audit', false)) AS t (relation, name, churns)
  LEFT JOIN LATERAL pg_catalog.pg_partition_tree(to_regclass(t.relation)) AS p ON true
  LEFT JOIN pg_catalog.pg_class AS c ON c.oid = coalesce(p.relid, to_regclass(t.relation)) AND c.relkind IN ('r', 'p', 'm')
  LEFT JOIN pg_catalog.pg_stat_all_tables AS s ON s.relid = c.oid
 GROUP BY t.name, t.churns
 ORDER BY 3 DESC, t.name;

/* delivery.Database */ SELECT pg_is_in_recovery(),
       current_setting('transaction_read_only')::boolean,
       current_user::text,
       ARRAY(SELECT p.oid::regprocedure::text
               FROM pg_catalog.pg_proc AS p
              WHERE p.pronamespace = 'pg_catalog'::regnamespace
                AND p.proname = ANY ($1::name[])
                AND NOT 'bytea'::regtype = ANY (p.proargtypes::oid[])
                AND NOT has_function_privilege(p.oid, 'EXECUTE')
              ORDER BY p.proname),
       ARRAY(SELECT f.name
               FROM unnest($1::name[]) AS f (name)
              WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = f.name)
              ORDER BY f.name);

/* delivery.Columns */ SELECT a.attname, a.atttypid::regtype::text
  FROM pg_attribute AS a
 WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped;

-- delivery/walbell/sql/slot.sql

/* walbell.Look */ SELECT EXISTS (SELECT FROM pg_publication AS p JOIN pg_publication_rel AS r ON r.prpubid = p.oid
                WHERE p.pubname = $1 AND p.pubinsert AND r.prrelid = to_regclass('"public".outbox_ready')),
       current_setting('wal_level'), current_setting('synchronous_standby_names'),
       n.slot, coalesce(s.active_pid, 0), s.confirmed_flush_lsn IS NOT NULL
  FROM (SELECT format('postrider_%s_%s', d.oid, left(md5($2), 16)) AS slot
          FROM pg_database AS d WHERE d.datname = current_database()) AS n
  LEFT JOIN pg_replication_slots AS s ON s.slot_name = n.slot;

-- heartbeat/sql/*.sql

/* heartbeat.Beat */ INSERT INTO "public".outbox_workers AS w
       (worker_id, hostname, pid, version, started_at, heartbeat_until, heartbeat_ttl, state, shape, canary,
        condition, condition_detail, condition_since, drain_requested_at)
VALUES ($1, $2, $3, $4, clock_timestamp(), clock_timestamp() + $5::interval, $5::interval, $6, nullif($7, ''), nullif($8::text, ''),
        nullif($9::text, ''), nullif($10::text, ''),
        CASE WHEN $9::text <> '' THEN clock_timestamp() - $11::interval END,
        CASE WHEN $6 = 'draining' THEN clock_timestamp() END)
ON CONFLICT (worker_id) DO UPDATE
   SET heartbeat_until  = clock_timestamp() + $5::interval,
       heartbeat_ttl    = $5::interval,
       state            = EXCLUDED.state,
       canary           = EXCLUDED.canary,
       condition        = EXCLUDED.condition,
       condition_detail = EXCLUDED.condition_detail,
       condition_since  = CASE WHEN w.condition = EXCLUDED.condition THEN w.condition_since ELSE EXCLUDED.condition_since END;

/* heartbeat.Leave */ DELETE FROM "public".outbox_workers WHERE worker_id = $1;

/* heartbeat.Purge */ DELETE FROM "public".outbox_workers
 WHERE heartbeat_until < clock_timestamp() - $1::interval;

/* heartbeat.Snapshot */ SELECT worker_id, coalesce(hostname, ''), coalesce(pid, 0), coalesce(version, ''), state, started_at, heartbeat_until, heartbeat_ttl,
       drain_requested_at, coalesce(shape, ''), coalesce(canary, ''),
       coalesce(condition, ''), coalesce(condition_detail, ''), condition_since, s.at
  FROM "public".outbox_workers, (SELECT clock_timestamp() AS at) AS s
 ORDER BY worker_id;

-- inbox/sql/*.sql

/* inbox.AddLanes */ INSERT INTO "public".inbox_lanes (consumer, lane, position, position_time)
SELECT $1, lane, $2, $3 FROM pg_catalog.generate_series(0, $4::integer - 1) AS lane
    ON CONFLICT DO NOTHING;

/* inbox.Acquire */ UPDATE "public".inbox_lanes AS l
   SET owner = $1::uuid, epoch = l.epoch + 1, lease_until = pg_catalog.clock_timestamp() + $2::interval, lease_ttl = $2::interval,
       crashes = l.crashes + CASE WHEN l.owner <> $1::uuid THEN 1 ELSE 0 END
  FROM (SELECT f.lane FROM "public".inbox_lanes AS f
         WHERE f.consumer = $3 AND f.lane <> ALL ($4::integer[])
           AND (f.owner IS NULL OR f.owner = $1::uuid OR f.lease_until < pg_catalog.clock_timestamp()
                OR EXISTS (SELECT FROM unnest($5::integer[], $6::bigint[], $7::timestamptz[]) AS z (lane, epoch, until)
                            WHERE z.lane = f.lane AND z.epoch = f.epoch AND z.until = f.lease_until))
         ORDER BY f.lane LIMIT $8 FOR NO KEY UPDATE SKIP LOCKED) AS free
 WHERE l.consumer = $3 AND l.lane = free.lane
RETURNING l.lane, l.epoch, l.position, l.position_time, l.crashes > 1 OR l.tries > 0;

/* inbox.Renew */ UPDATE "public".inbox_lanes AS l
   SET lease_until = pg_catalog.clock_timestamp() + $1::interval
  FROM (SELECT f.lane FROM "public".inbox_lanes AS f
          JOIN unnest($2::integer[], $3::bigint[]) AS h (lane, epoch) ON h.lane = f.lane AND h.epoch = f.epoch
         WHERE f.consumer = $4 AND f.owner = $5
         ORDER BY f.lane FOR NO KEY UPDATE OF f SKIP LOCKED) AS held
 WHERE l.consumer = $4 AND l.lane = held.lane;

/* inbox.Disown */ UPDATE "public".inbox_lanes AS l
   SET owner = NULL, lease_until = NULL, tries = CASE WHEN l.tried_epoch = l.epoch THEN greatest(l.tries - 1, 0) ELSE l.tries END
  FROM (SELECT f.lane FROM "public".inbox_lanes AS f
         WHERE f.consumer = $1 AND f.owner = $2 AND f.lane <> ALL ($3::integer[])
         ORDER BY f.lane FOR NO KEY UPDATE SKIP LOCKED) AS strange
 WHERE l.consumer = $1 AND l.lane = strange.lane;

/* inbox.Mine */ SELECT lane, epoch, position FROM "public".inbox_lanes WHERE consumer = $1 AND owner = $2;

/* inbox.Lanes */ SELECT pg_catalog.count(*) FROM "public".inbox_lanes WHERE consumer = $1;

/* inbox.Fence */ UPDATE "public".inbox_lanes
   SET position = greatest(position, $1::bigint), position_time = CASE WHEN $1::bigint > position THEN $2 ELSE position_time END,
       crashes = 0, tries = 0, lease_until = pg_catalog.clock_timestamp() + $3::interval
 WHERE consumer = $4 AND lane = $5 AND owner = $6 AND epoch = $7 AND position >= $8::bigint;

/* inbox.Begin */ UPDATE "public".inbox_lanes
   SET tries = CASE WHEN tried <> $1::bigint THEN 1 WHEN tried_epoch = epoch THEN tries ELSE tries + 1 END,
       tried = $1::bigint, tried_epoch = epoch
 WHERE consumer = $2 AND lane = $3 AND owner = $4 AND epoch = $5 AND position >= $6::bigint
RETURNING tries;

/* inbox.Advance */ UPDATE "public".inbox_lanes AS l SET position = w.position, position_time = w.position_time
  FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS w (lane, epoch, known, position, position_time)
 WHERE l.consumer = $6 AND l.owner = $7 AND l.lane = w.lane AND l.epoch = w.epoch AND l.position >= w.known AND l.position < w.position;

/* inbox.Release */ UPDATE "public".inbox_lanes SET owner = NULL, lease_until = NULL,
       position = CASE WHEN position >= $1::bigint THEN greatest(position, $2::bigint) ELSE position END,
       position_time = CASE WHEN position >= $1::bigint AND $2::bigint > position THEN $3 ELSE position_time END,
       tries = CASE WHEN tried_epoch = epoch THEN greatest(tries - 1, 0) ELSE tries END
 WHERE consumer = $4 AND lane = $5 AND owner = $6 AND epoch = $7;

/* inbox.RestartLanes */ UPDATE "public".inbox_lanes SET position = 0, position_time = 0, owner = NULL, lease_until = NULL, epoch = epoch + 1, tries = 0
 WHERE consumer = $1;

/* inbox.Rewind */ UPDATE "public".inbox_lanes SET position = $1::bigint, position_time = $2::bigint, owner = NULL, lease_until = NULL, epoch = epoch + 1, tries = 0
 WHERE consumer = $3 AND position > $1::bigint
   AND (position, position_time) IN (SELECT * FROM unnest($4::bigint[], $5::bigint[]));

/* inbox.Marks */ SELECT DISTINCT position, position_time FROM "public".inbox_lanes WHERE consumer = $1 AND position > 0;

/* inbox.AddConsumer */ INSERT INTO "public".inbox_consumers (consumer, lanes, stream, stream_created) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING;

/* inbox.LockConsumer */ SELECT lanes, stream, stream_created FROM "public".inbox_consumers WHERE consumer = $1 FOR NO KEY UPDATE;

/* inbox.RestartConsumer */ UPDATE "public".inbox_consumers SET stream_created = $1 WHERE consumer = $2;

/* inbox.Beat */ INSERT INTO "public".inbox_readers (consumer, reader, hostname, pid, alive_until, alive_ttl)
VALUES ($1, $2, $3, $4, pg_catalog.clock_timestamp() + $5::interval, $5::interval)
    ON CONFLICT (consumer, reader) DO UPDATE SET alive_until = EXCLUDED.alive_until, alive_ttl = EXCLUDED.alive_ttl;

/* inbox.Leave */ DELETE FROM "public".inbox_readers
 WHERE consumer = $1 AND (reader = $2 OR alive_until < pg_catalog.clock_timestamp() - interval '1 hour');

/* inbox.Readers */ SELECT reader, alive_until,
       CASE WHEN alive_until - pg_catalog.clock_timestamp() > alive_ttl + $1::interval THEN alive_ttl END
  FROM "public".inbox_readers WHERE consumer = $2 AND alive_until > pg_catalog.clock_timestamp() ORDER BY reader;

/* inbox.Ahead */ SELECT lane, epoch, lease_until, lease_ttl
  FROM "public".inbox_lanes
 WHERE consumer = $1 AND owner IS NOT NULL AND lease_until - pg_catalog.clock_timestamp() > lease_ttl + $2::interval;

/* inbox.AddMalformed */ INSERT INTO "public".inbox_malformed (consumer, stream_sequence, subject, reason, envelope, payload)
VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (consumer, stream_sequence) DO UPDATE
   SET received_at = clock_timestamp(), subject = EXCLUDED.subject, reason = EXCLUDED.reason, envelope = EXCLUDED.envelope, payload = EXCLUDED.payload;

/* inbox.Park */ SELECT "public".inbox_park($1::text, $2::bigint, $3::bigint, $4::uuid, $5::text, $6::integer, $7::interval, $8::text,
       $9::text, $10::bigint, $11::bytea, $12::bytea);

/* inbox.Unpark */ SELECT "public".inbox_unpark($1::bigint, $2::bigint);

/* inbox.Claim */ SELECT key, id, begun FROM "public".inbox_claim($1::text, $2::uuid, $3::boolean, $4::double precision,
       $5::double precision, $6::double precision);

/* inbox.Unclaim */ UPDATE "public".inbox_parked SET begun = begun - 1, begun_by = NULL, due_at = pg_catalog.clock_timestamp()
 WHERE parked_id = $1 AND begun = $2 AND begun_by = $3;

/* inbox.Head */ SELECT parked_id, state, attempts, begun, coalesce(reason, ''), subject,
       stream_sequence, envelope, payload
  FROM "public".inbox_parked
 WHERE stream_key = $1
 ORDER BY version, parked_id
 LIMIT 1;

/* inbox.Fail */ UPDATE "public".inbox_parked
   SET state = $1, attempts = $2, due_at = pg_catalog.clock_timestamp() + $3::interval, reason = $4, begun = 0, begun_by = NULL
 WHERE parked_id = $5;

/* inbox.Bury */ UPDATE "public".inbox_parked
   SET state = 'dead', due_at = NULL, reason = $1, begun = 0, begun_by = NULL
 WHERE parked_id = $2 AND begun = $3 AND begun_by = $4;

/* inbox.List */ SELECT p.parked_id, p.state, p.attempts,
       CASE WHEN p.due_at IS NOT NULL THEN least(greatest(p.due_at, '0001-01-01 00:00:00.000001Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz) END,
       least(greatest(p.parked_at, '0001-01-01 00:00:00.000001Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz),
       coalesce(p.reason, ''), p.subject, p.stream_sequence, p.envelope, p.payload
  FROM "public".inbox_parked AS p
  JOIN "public".inbox_streams AS s USING (stream_key)
 WHERE p.consumer = $1 AND p.state = $2 AND p.parked_id > $3 AND ($4::text = '' OR s.stream = $4::text)
 ORDER BY p.parked_id
 LIMIT $5;

/* inbox.Count */ SELECT state, pg_catalog.count(*), greatest(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(parked_at)), 0)::float8
  FROM "public".inbox_parked
 WHERE consumer = $1
 GROUP BY state;

/* inbox.Requeue */ UPDATE "public".inbox_parked
   SET state = 'failed', attempts = 0, begun = 0, begun_by = NULL, due_at = pg_catalog.clock_timestamp()
 WHERE consumer = $1 AND state = 'dead' AND ($2::uuid[] IS NULL OR event_id = ANY ($2::uuid[]));

/* inbox.FindDead */ SELECT stream_key FROM "public".inbox_parked WHERE consumer = $1 AND event_id = $2 AND state = 'dead' LIMIT 1;

/* inbox.TakeDead */ DELETE FROM "public".inbox_parked
 WHERE stream_key = $1 AND event_id = $2 AND state = 'dead'
RETURNING parked_id, subject, stream_sequence, envelope, payload;

/* inbox.Decide */ SELECT place, key, verdict, findings, missing, last, result
  FROM "public".inbox_decide($1::text, $2::boolean, $3::boolean, $4::text[], $5::bigint[], $6::uuid[],
       $7::bigint[], $8::integer[], $9::integer[], $10::bigint[]);

/* inbox.Record */ SELECT "public".inbox_record($1::bigint[], $2::bigint[], $3::uuid[], $4::bigint[], $5::integer[], $6::integer[],
       $7::bigint[], $8::bytea[], $9::text);

/* inbox.LockStream */ SELECT stream_key FROM "public".inbox_streams WHERE stream_key = $1 FOR NO KEY UPDATE;

/* inbox.ForgetStream */ UPDATE "public".inbox_streams
   SET version = 0, event_id = NULL, generation = 0, partition = -1, sequence = 0, epoch = 0, updated_at = pg_catalog.clock_timestamp()
 WHERE consumer = $1 AND stream = $2
RETURNING stream_key;

/* inbox.ForgetRecords */ DELETE FROM "public".inbox_records WHERE stream_key = $1;

/* inbox.Purge */ DELETE FROM "public".inbox_records
 WHERE ctid = ANY (ARRAY(
       SELECT r.ctid
         FROM "public".inbox_records AS r
        WHERE r.recorded_at < pg_catalog.clock_timestamp() - $1::interval
          AND EXISTS (SELECT FROM "public".inbox_streams AS s WHERE s.stream_key = r.stream_key AND s.consumer = $2)
        LIMIT $3));

/* inbox.AddSender */ INSERT INTO "public".inbox_senders (consumer, sender)
SELECT $1::text, $2::text
 WHERE NOT EXISTS (SELECT FROM "public".inbox_senders WHERE consumer = $1 AND sender = $2)
    ON CONFLICT DO NOTHING;

/* inbox.LockSender */ SELECT generation, call_id, failed, coalesce(reason, ''), result
  FROM "public".inbox_senders
 WHERE consumer = $1 AND sender = $2
   FOR NO KEY UPDATE;

/* inbox.SetSender */ UPDATE "public".inbox_senders
   SET generation = $1, call_id = $2, failed = $3, reason = $4, result = $5, updated_at = pg_catalog.clock_timestamp()
 WHERE consumer = $6 AND sender = $7;

/* inbox.LastCall */ SELECT generation, call_id FROM "public".inbox_senders WHERE consumer = $1 AND sender = $2;

/* inbox.Settings */ SELECT pg_catalog.set_config('inbox.enable_seqscan', pg_catalog.current_setting('enable_seqscan'), true),
       pg_catalog.set_config('enable_seqscan', 'off', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true);

/* inbox.SettingsBack */ SELECT pg_catalog.set_config('enable_seqscan', pg_catalog.current_setting('inbox.enable_seqscan'), true);

/* inbox.LimitIdle */ SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true);

-- inbox/caller/sql/*.sql

/* caller.Queue */ INSERT INTO "public".inbox_calls (sender, request) VALUES ($1, $2);

/* caller.Waits */ SELECT EXISTS (SELECT FROM "public".inbox_calls WHERE sender = $1), pg_catalog.row_security_active('"public".inbox_calls');

/* caller.AddCaller */ INSERT INTO "public".inbox_callers (sender)
SELECT $1::text
 WHERE NOT EXISTS (SELECT FROM "public".inbox_callers WHERE sender = $1)
    ON CONFLICT DO NOTHING;

/* caller.LockCaller */ SELECT generation, call_id, queued,
       pg_catalog.concat_ws('/', extract(epoch FROM pg_catalog.pg_postmaster_start_time()), pg_catalog.pg_relation_filenode('"public".inbox_callers'::regclass)),
       CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN pg_catalog.set_config('synchronous_commit', 'on', true) END,
       pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true)
  FROM "public".inbox_callers
 WHERE sender = $2
   FOR NO KEY UPDATE;

/* caller.Head */ SELECT c.queued, c.request
  FROM "public".inbox_calls AS c
 WHERE c.sender = $1
   AND c.queued = coalesce((SELECT l.queued FROM "public".inbox_calls AS l WHERE l.sender = $1 AND l.queued = $2),
                           (SELECT o.queued FROM "public".inbox_calls AS o WHERE o.sender = $1 ORDER BY o.queued LIMIT 1));

/* caller.Number */ UPDATE "public".inbox_callers SET generation = $1, call_id = $2, queued = $3 WHERE sender = $4;

/* caller.Failed */ UPDATE "public".inbox_calls SET attempts = attempts + 1, last_error = $1 WHERE sender = $2 AND queued = $3;

/* caller.Remove */ WITH removed AS (
    DELETE FROM "public".inbox_calls WHERE sender = $1 AND queued = $2 RETURNING queued),
forgotten AS (
    UPDATE "public".inbox_callers AS c SET queued = 0 FROM removed AS r WHERE c.sender = $1 AND c.queued = r.queued)
SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', $3, true) FROM removed;

/* caller.Last */ SELECT coalesce(max(generation), 0), coalesce(max(call_id), 0),
       pg_catalog.concat_ws('/', extract(epoch FROM pg_catalog.pg_postmaster_start_time()), pg_catalog.pg_relation_filenode('"public".inbox_callers'::regclass)),
       EXISTS (SELECT FROM "public".inbox_calls AS c JOIN "public".inbox_callers AS l ON l.sender = c.sender AND l.queued = c.queued WHERE c.sender = $1),
       pg_catalog.row_security_active('"public".inbox_callers')
  FROM "public".inbox_callers WHERE sender = $1;

-- lease/sql/*.sql

/* lease.Snapshot */ SELECT p.partition_key, nullif(p.lease_owner, s.gone), p.lease_until, p.lease_until - s.at AS time_left, p.lease_ttl,
       p.lease_epoch, p.delivered, p.paused_at, p.crashes, s.at, s.frozen
  FROM "public".outbox_partitions AS p,
       (SELECT z.at, z.frozen, CASE WHEN NOT z.frozen THEN z.frozen_by END AS gone
          FROM (SELECT clock_timestamp() AS at,
CASE WHEN s.frozen_at > clock_timestamp() - interval '1 minute'
     THEN EXISTS (SELECT
                    FROM pg_locks AS k
                   WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2
                     AND k.classid = hashtext('postrider freeze')::oid AND k.objid = hashtext(s.outbox_id::text)::oid
                     AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
     ELSE false END
                       AS frozen, s.frozen_by FROM "public".outbox_settings AS s) AS z) AS s
 ORDER BY p.partition_key;

/* lease.Count */ SELECT count(*) FROM "public".outbox_partitions;

/* lease.Acquire */ WITH freezer AS MATERIALIZED (
       SELECT s.frozen_by,
CASE WHEN s.frozen_at > clock_timestamp() - interval '1 minute'
     THEN EXISTS (SELECT
                    FROM pg_locks AS k
                   WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2
                     AND k.classid = hashtext('postrider freeze')::oid AND k.objid = hashtext(s.outbox_id::text)::oid
                     AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
     ELSE false END
              AS holds FROM "public".outbox_settings AS s),
     taken AS (
       UPDATE "public".outbox_partitions AS p
          SET lease_owner = $1,
              lease_epoch = p.lease_epoch + 1,
              lease_until = clock_timestamp() + $2::interval,
              lease_ttl   = $2::interval,
              released_by = NULL,
              crashes     = p.crashes + (p.lease_owner IS NOT NULL AND p.lease_owner <> $1 AND (p.carrying OR p.crashes = 0))::int,
              carrying    = false,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key, f.lease_owner, f.lease_until, f.released_by
                 FROM "public".outbox_partitions AS f
                WHERE f.partition_key = ANY ($3::smallint[])
                  AND (f.lease_owner IS NULL OR f.lease_owner = $1 OR f.lease_until < clock_timestamp()
                       OR f.lease_owner = (SELECT z.frozen_by FROM freezer AS z WHERE NOT z.holds)
                       OR EXISTS (SELECT FROM unnest($4::smallint[], $5::bigint[], $6::timestamptz[]) AS z (partition_key, epoch, until)
                                   WHERE z.partition_key = f.partition_key AND z.epoch = f.lease_epoch AND z.until = f.lease_until))
                  AND ($7::boolean OR NOT (SELECT z.holds FROM freezer AS z))
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f SKIP LOCKED) AS was
        WHERE p.partition_key = was.partition_key
    RETURNING p.partition_key, p.lease_epoch, p.delivered, p.crashes, p.stream_life,
              greatest(p.fence_sequence, p.lost_sequence) AS fence_sequence, greatest(p.stream_sequence, p.lost_sequence) AS stream_sequence
              ,
              was.lease_owner AS silent, was.lease_until AS ran_out, was.released_by),
     told AS (
       INSERT INTO "public".outbox_ownership
              (kind, worker_id, hostname, previous_id, previous_hostname, lease_until, partition_keys, lease_epochs)
       SELECT c.kind, $1, coalesce((SELECT w.hostname FROM "public".outbox_workers AS w WHERE w.worker_id = $1), $8::text),
              c.previous,
coalesce((SELECT w.hostname FROM "public".outbox_workers AS w WHERE w.worker_id = c.previous),
         (SELECT CASE WHEN o.worker_id = c.previous THEN o.hostname ELSE o.previous_hostname END
            FROM "public".outbox_ownership AS o
           WHERE c.previous IS NOT NULL AND (o.worker_id = c.previous OR o.previous_id = c.previous)
           ORDER BY o.id DESC
           LIMIT 1))
              , c.ran_out, c.partition_keys, c.lease_epochs
         FROM (SELECT CASE WHEN $7::boolean                          THEN 'resizing'
                           WHEN coalesce(t.silent, t.released_by) = $1  THEN 'retaken'
                           WHEN t.silent IS NOT NULL                        THEN 'taken-over'
                           WHEN t.released_by IS NOT NULL                   THEN 'moved'
                           ELSE 'taken' END AS kind,
                      coalesce(t.silent, t.released_by) AS previous,
                      max(t.ran_out) FILTER (WHERE t.silent <> $1 AND t.ran_out < clock_timestamp()) AS ran_out,
                      array_agg(t.partition_key ORDER BY t.partition_key) AS partition_keys,
                      array_agg(t.lease_epoch ORDER BY t.partition_key) AS lease_epochs
                 FROM taken AS t
                GROUP BY 1, 2) AS c
        ORDER BY c.partition_keys[1])
SELECT taken.partition_key, taken.lease_epoch, taken.delivered, taken.fence_sequence, taken.stream_sequence, taken.stream_life, taken.crashes,
          (SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) FROM pg_control_system() AS c)
  FROM taken;

/* lease.AcquireSolo */ WITH taken AS (
       UPDATE "public".outbox_partitions AS p
          SET lease_owner = NULL,
              lease_until = NULL,
              lease_epoch = p.lease_epoch + 1,
              crashes     = p.crashes + (p.carrying OR p.crashes = 0)::int,
              carrying    = false,
              released_by = NULL,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key, f.lease_owner, f.released_by
                 FROM "public".outbox_partitions AS f
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f) AS was
        WHERE p.partition_key = was.partition_key
    RETURNING p.partition_key, p.lease_epoch, p.delivered, p.crashes, p.stream_life,
              greatest(p.fence_sequence, p.lost_sequence) AS fence_sequence, greatest(p.stream_sequence, p.lost_sequence) AS stream_sequence
              ,
              coalesce(was.lease_owner, was.released_by) AS previous),
     told AS (
       INSERT INTO "public".outbox_ownership
              (kind, worker_id, hostname, previous_id, previous_hostname, partition_keys, lease_epochs)
       SELECT 'solo', $1::uuid, $2::text, c.previous,
coalesce((SELECT w.hostname FROM "public".outbox_workers AS w WHERE w.worker_id = c.previous),
         (SELECT CASE WHEN o.worker_id = c.previous THEN o.hostname ELSE o.previous_hostname END
            FROM "public".outbox_ownership AS o
           WHERE c.previous IS NOT NULL AND (o.worker_id = c.previous OR o.previous_id = c.previous)
           ORDER BY o.id DESC
           LIMIT 1))
              , c.partition_keys, c.lease_epochs
         FROM (SELECT t.previous,
                      array_agg(t.partition_key ORDER BY t.partition_key) AS partition_keys,
                      array_agg(t.lease_epoch ORDER BY t.partition_key) AS lease_epochs
                 FROM taken AS t
                GROUP BY t.previous) AS c
        ORDER BY c.partition_keys[1])
SELECT taken.partition_key, taken.lease_epoch, taken.delivered, taken.fence_sequence, taken.stream_sequence, taken.stream_life, taken.crashes,
          (SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) FROM pg_control_system() AS c)
  FROM taken;

/* lease.LeasedElsewhere */ SELECT false, w.worker_id::text, w.heartbeat_until,
       CASE WHEN w.heartbeat_until > clock_timestamp() + w.heartbeat_ttl + $1::interval THEN w.heartbeat_ttl END
  FROM "public".outbox_workers AS w
 WHERE w.heartbeat_until > clock_timestamp()
 UNION ALL
SELECT true, p.partition_key::text, p.lease_until,
       CASE WHEN p.lease_until > clock_timestamp() + p.lease_ttl + $1::interval THEN p.lease_ttl END
  FROM "public".outbox_partitions AS p
 CROSS JOIN (SELECT s.frozen_by,
CASE WHEN s.frozen_at > clock_timestamp() - interval '1 minute'
     THEN EXISTS (SELECT
                    FROM pg_locks AS k
                   WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2
                     AND k.classid = hashtext('postrider freeze')::oid AND k.objid = hashtext(s.outbox_id::text)::oid
                     AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
     ELSE false END
                    AS holds FROM "public".outbox_settings AS s) AS freezer
 WHERE p.lease_owner IS NOT NULL AND p.lease_until > clock_timestamp()
   AND (freezer.holds OR p.lease_owner IS DISTINCT FROM freezer.frozen_by);

/* lease.LockPatience */ SELECT set_config('lock_timeout', $1, true);

/* lease.Renew */ UPDATE "public".outbox_partitions AS p
   SET lease_until = clock_timestamp() + $1::interval,
       lease_ttl   = $1::interval,
       updated_at  = clock_timestamp()
  FROM (SELECT f.partition_key
          FROM unnest($2::smallint[], $3::bigint[]) AS mine (partition_key, epoch)
          JOIN "public".outbox_partitions AS f USING (partition_key)
         WHERE f.lease_owner = $4 AND f.lease_epoch = mine.epoch
         ORDER BY f.partition_key
           FOR NO KEY UPDATE OF f) AS held
 WHERE p.partition_key = held.partition_key
RETURNING p.partition_key,
          (SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) FROM pg_control_system() AS c);

/* lease.RenewFree */ WITH mine AS (
       SELECT m.partition_key, m.epoch FROM unnest($1::smallint[], $2::bigint[]) AS m (partition_key, epoch)),
     renewed AS (
       UPDATE "public".outbox_partitions AS p
          SET lease_until = clock_timestamp() + $3::interval,
              lease_ttl   = $3::interval,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key
                 FROM mine JOIN "public".outbox_partitions AS f USING (partition_key)
                WHERE f.lease_owner = $4 AND f.lease_epoch = mine.epoch
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f SKIP LOCKED) AS held
        WHERE p.partition_key = held.partition_key
    RETURNING p.partition_key)
SELECT mine.partition_key, renewed.partition_key IS NOT NULL,
          (SELECT format('%s/%s', c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)) FROM pg_control_system() AS c)
  FROM mine
  JOIN "public".outbox_partitions AS f USING (partition_key)
  LEFT JOIN renewed USING (partition_key)
 WHERE renewed.partition_key IS NOT NULL OR (f.lease_owner = $4 AND f.lease_epoch = mine.epoch);

/* lease.Release */ WITH released AS (
       UPDATE "public".outbox_partitions AS p
          SET lease_owner = NULL,
              lease_until = NULL,
              released_by = $1,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key
                 FROM unnest($2::smallint[], $3::bigint[]) AS mine (partition_key, epoch)
                 JOIN "public".outbox_partitions AS f USING (partition_key)
                WHERE f.lease_owner = $1 AND f.lease_epoch = mine.epoch
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f) AS held
        WHERE p.partition_key = held.partition_key
    RETURNING p.partition_key, p.lease_epoch),
     told AS (
       INSERT INTO "public".outbox_ownership (kind, previous_id, previous_hostname, partition_keys, lease_epochs)
       SELECT 'released', c.previous,
coalesce((SELECT w.hostname FROM "public".outbox_workers AS w WHERE w.worker_id = c.previous),
         (SELECT CASE WHEN o.worker_id = c.previous THEN o.hostname ELSE o.previous_hostname END
            FROM "public".outbox_ownership AS o
           WHERE c.previous IS NOT NULL AND (o.worker_id = c.previous OR o.previous_id = c.previous)
           ORDER BY o.id DESC
           LIMIT 1))
              , c.partition_keys, c.lease_epochs
         FROM (SELECT $1::uuid AS previous,
                      array_agg(r.partition_key ORDER BY r.partition_key) AS partition_keys,
                      array_agg(r.lease_epoch ORDER BY r.partition_key) AS lease_epochs
                 FROM released AS r
               HAVING count(*) > 0) AS c)
SELECT released.partition_key
  FROM released;

/* lease.Disown */ WITH released AS (
       UPDATE "public".outbox_partitions AS p
          SET lease_owner = NULL,
              lease_until = NULL,
              released_by = $1,
              updated_at  = clock_timestamp()
        WHERE p.lease_owner = $1
    RETURNING p.partition_key, p.lease_epoch),
     told AS (
       INSERT INTO "public".outbox_ownership (kind, previous_id, previous_hostname, partition_keys, lease_epochs)
       SELECT 'released', c.previous,
coalesce((SELECT w.hostname FROM "public".outbox_workers AS w WHERE w.worker_id = c.previous),
         (SELECT CASE WHEN o.worker_id = c.previous THEN o.hostname ELSE o.previous_hostname END
            FROM "public".outbox_ownership AS o
           WHERE c.previous IS NOT NULL AND (o.worker_id = c.previous OR o.previous_id = c.previous)
           ORDER BY o.id DESC
           LIMIT 1))
              , c.partition_keys, c.lease_epochs
         FROM (SELECT $1::uuid AS previous,
                      array_agg(r.partition_key ORDER BY r.partition_key) AS partition_keys,
                      array_agg(r.lease_epoch ORDER BY r.partition_key) AS lease_epochs
                 FROM released AS r
               HAVING count(*) > 0) AS c)
SELECT released.partition_key
  FROM released;

/* lease.SyncAdd */ WITH back AS (
       DELETE FROM "public".outbox_former_partitions
        WHERE partition_key < $1::int
    RETURNING partition_key, lease_epoch, fence_sequence, stream_sequence)
INSERT INTO "public".outbox_partitions (partition_key, lease_epoch, fence_sequence, stream_sequence)
SELECT n, coalesce(b.lease_epoch, h.epoch, 0), coalesce(b.fence_sequence, h.known, 0), coalesce(b.stream_sequence, h.known, 0)
  FROM generate_series(0, $1::int - 1) AS n
  LEFT JOIN back AS b ON b.partition_key = n
  LEFT JOIN LATERAL (SELECT max(d.lease_epoch) AS epoch, max(least(d.last_stream_sequence, d.lost_after)) AS known
                       FROM "public".outbox_deliveries AS d
                      CROSS JOIN "public".outbox_settings AS s
                      WHERE d.partition_key = n AND d.id > coalesce(s.resized_delivery, 0)) AS h ON b.partition_key IS NULL
 WHERE NOT EXISTS (SELECT FROM "public".outbox_partitions AS p WHERE p.partition_key = n)
ON CONFLICT (partition_key) DO NOTHING;

/* lease.SyncPrune */ WITH gone AS (
       DELETE FROM "public".outbox_partitions AS p
        WHERE p.partition_key >= $1::int
          AND (p.lease_owner IS NULL OR p.lease_owner = $2 OR p.lease_until < clock_timestamp())
          AND NOT EXISTS (SELECT FROM "public".outbox AS o WHERE o.partition_key = p.partition_key)
    RETURNING p.partition_key, p.lease_epoch, coalesce(p.lease_owner, p.released_by) AS previous,
              greatest(p.fence_sequence, p.lost_sequence) AS fence_sequence, greatest(p.stream_sequence, p.lost_sequence) AS stream_sequence
       ),
     told AS (
       INSERT INTO "public".outbox_ownership (kind, previous_id, previous_hostname, partition_keys, lease_epochs)
       SELECT 'removed', c.previous,
coalesce((SELECT w.hostname FROM "public".outbox_workers AS w WHERE w.worker_id = c.previous),
         (SELECT CASE WHEN o.worker_id = c.previous THEN o.hostname ELSE o.previous_hostname END
            FROM "public".outbox_ownership AS o
           WHERE c.previous IS NOT NULL AND (o.worker_id = c.previous OR o.previous_id = c.previous)
           ORDER BY o.id DESC
           LIMIT 1))
              , c.partition_keys, c.lease_epochs
         FROM (SELECT g.previous,
                      array_agg(g.partition_key ORDER BY g.partition_key) AS partition_keys,
                      array_agg(g.lease_epoch ORDER BY g.partition_key) AS lease_epochs
                 FROM gone AS g
                GROUP BY g.previous) AS c)
INSERT INTO "public".outbox_former_partitions AS f (partition_key, lease_epoch, fence_sequence, stream_sequence)
SELECT partition_key, lease_epoch, fence_sequence, stream_sequence
  FROM gone
ON CONFLICT (partition_key) DO UPDATE
   SET lease_epoch     = greatest(f.lease_epoch, EXCLUDED.lease_epoch),
       fence_sequence  = EXCLUDED.fence_sequence,
       stream_sequence = EXCLUDED.stream_sequence,
       removed_at      = EXCLUDED.removed_at;

/* lease.History */ SELECT o.id, o.changed_at, o.kind, o.previous_id, coalesce(o.previous_hostname, ''), o.worker_id, coalesce(o.hostname, ''),
       o.lease_until, o.partition_keys, o.lease_epochs
  FROM "public".outbox_ownership AS o
 WHERE ($1::bigint = 0 OR o.id < $1)
   AND ($2::smallint IS NULL OR $2 = ANY (o.partition_keys))
   AND ($3::timestamptz IS NULL OR o.changed_at >= $3)
   AND ($4::timestamptz IS NULL OR o.changed_at <= $4)
 ORDER BY o.id DESC
 LIMIT $5;

/* lease.HistoryBegins */ SELECT (SELECT o.changed_at FROM "public".outbox_ownership AS o ORDER BY o.id LIMIT 1);

/* lease.LockFreeze */ SELECT s.frozen_by
  FROM "public".outbox_settings AS s
 WHERE pg_try_advisory_xact_lock(hashtext('postrider freeze'), hashtext(s.outbox_id::text));

/* lease.StayIdle */ SELECT set_config('idle_in_transaction_session_timeout', '0', true), set_config('tcp_keepalives_idle', '15', true),
       set_config('tcp_keepalives_interval', '15', true), set_config('tcp_keepalives_count', '3', true),
       CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', true) END;

/* lease.Freeze */ UPDATE "public".outbox_settings SET frozen_at = clock_timestamp(), frozen_by = $1;

/* lease.Thaw */ UPDATE "public".outbox_settings SET frozen_at = NULL, frozen_by = NULL WHERE frozen_by = $1;

/* lease.Census */ SELECT z.partition_count, z.frozen, (SELECT count(*) FROM "public".outbox_partitions AS p WHERE z.frozen AND p.lease_owner = z.frozen_by), z.resized_at
  FROM (SELECT s.partition_count, s.frozen_by, s.resized_at,
CASE WHEN s.frozen_at > clock_timestamp() - interval '1 minute'
     THEN EXISTS (SELECT
                    FROM pg_locks AS k
                   WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2
                     AND k.classid = hashtext('postrider freeze')::oid AND k.objid = hashtext(s.outbox_id::text)::oid
                     AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
     ELSE false END
               AS frozen FROM "public".outbox_settings AS s) AS z;

-- outbox/sql/*.sql

/* outbox.Append */ SELECT sequence, event_id, stream_version, partition_key, duplicate, enqueued
  FROM "public".outbox_append_batch(
       $1::text[], $2::text[], $3::bytea[], $4::uuid[], $5::bigint[], $6::jsonb[], $7::text[],
       $8::text[], $9::bigint[], $10::text[], $11::text[], $12::boolean[], $13::timestamptz[],
       $14::timestamptz[]);

/* outbox.WithoutEnqueue */ SELECT "public".outbox_without_enqueue();

-- outbox/capture/sql/*.sql

/* capture.Unique */ SELECT a.attname::text
  FROM pg_index AS i
  JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
 WHERE i.indrelid = $1 AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL AND a.attnotnull;

/* capture.MayAdopt */ SELECT has_schema_privilege(c.relowner, o.oid, 'USAGE') AND has_function_privilege(c.relowner, append.oid, 'EXECUTE'),
       has_function_privilege(event.oid, 'EXECUTE') AND has_function_privilege(batch.oid, 'EXECUTE')
  FROM pg_class AS c
  JOIN pg_namespace AS o ON o.nspname = $1
  JOIN pg_class AS e ON e.relnamespace = o.oid AND e.relname = 'events'
  JOIN pg_proc AS append ON append.pronamespace = o.oid AND append.proname = 'outbox_append_adopted' AND append.proowner = e.relowner
  JOIN pg_proc AS event ON event.pronamespace = o.oid AND event.proname = 'outbox_adopted_event' AND event.proowner = e.relowner
  JOIN pg_proc AS batch ON batch.pronamespace = o.oid AND batch.proname = 'outbox_append_batch' AND batch.proowner = e.relowner
 WHERE c.oid = $2;

/* capture.Own */ SELECT session_user = current_user AND pg_get_userbyid(c.relowner) = session_user FROM pg_class AS c WHERE c.oid = $1;

/* capture.Fit */ SELECT f.event_stream, f.event_type, f.event_topic, f.event_metadata::text, f.event_tenant, f.event_key, f.event_occurred, f.id, f.next_id,
       f.told, f.changed, f.shared
  FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[],
              $8::text[], $9::text[], $10::timestamptz[])
       WITH ORDINALITY AS u (row_key, own_id, stream, type, topic, payload, metadata, tenant, key, occurred, position)
 CROSS JOIN LATERAL "public".outbox_adopted_event($11::text, u.row_key, u.own_id, u.stream, u.type, u.topic, u.payload, u.metadata,
                        $12::boolean, u.tenant, u.key, u.occurred) AS f
 ORDER BY u.position;

/* capture.Versions */ SELECT s.stream, coalesce(kept.last, head.stream_version, 0), coalesce(kept.first > 1, head.stream_version IS NOT NULL)
  FROM unnest($1::text[]) AS s (stream)
 CROSS JOIN LATERAL (SELECT min(e.stream_version) AS first, max(e.stream_version) AS last
                       FROM "public".events AS e WHERE e.stream_id = s.stream) AS kept
  LEFT JOIN "public".outbox_stream_heads AS head ON head.stream_id = s.stream;

/* capture.MayBackfill */ SELECT session_user = current_user AND pg_get_userbyid(c.relowner) = session_user,
       has_function_privilege(b.oid, 'EXECUTE'),
       EXISTS (SELECT FROM pg_index AS i
                WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
                  AND (i.indkey::int[])[0:i.indnkeyatts - 1] <@ $1::text::int[])
  FROM pg_class AS c
  JOIN pg_namespace AS o ON o.nspname = $2
  JOIN pg_class AS e ON e.relnamespace = o.oid AND e.relname = 'events'
  JOIN pg_proc AS b ON b.pronamespace = o.oid AND b.proname = 'outbox_append_batch' AND b.proowner = e.relowner
 WHERE c.oid = $3;

/* capture.Since */ SELECT s.stream, coalesce(l.stream_version, h.stream_version, 0)
  FROM unnest($1::text[]) AS s (stream)
  LEFT JOIN LATERAL (SELECT e.stream_version, e.sequence FROM "public".events AS e
                      WHERE e.stream_id = s.stream ORDER BY e.stream_version DESC LIMIT 1) AS l ON true
  LEFT JOIN "public".outbox_stream_heads AS h ON h.stream_id = s.stream
 WHERE coalesce(l.sequence, 0) <= $2;

/* capture.Append */ SELECT count(*)
  FROM "public".outbox_append_batch($1::text[], $2::text[], $3::bytea[], $4::uuid[], $5::bigint[],
           $6::text[]::jsonb[], $7::text[], $8::text[], NULL::bigint[], NULL::text[], $9::text[],
           NULL::boolean[], NULL::timestamptz[], $10::timestamptz[]);

/* capture.Body */ DECLARE
    old_stream   text;
    new_stream   text;
    old_row      text;
    new_row      text;
    other        text;
    keys         text[];
    keys_types   oid[];
    chosen       text[];
    chosen_types oid[];
    same         boolean;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'TRUNCATE of % would tell nothing of its rows, which are captured', TG_RELID::regclass
            USING ERRCODE = '0A000', HINT = 'DELETE tells of each row; `postrider capture drop` ends the capture.';
    END IF;
    IF TG_RELID = {TABLE} OR EXISTS (SELECT FROM pg_partition_ancestors(TG_RELID) AS a WHERE a.relid = {TABLE}) THEN
        {KEYS};
        {NOW}
        IF cardinality(keys) <> {MOST} THEN
            RAISE EXCEPTION 'a column of the key of %, which is captured, was dropped', TG_RELID::regclass
                USING ERRCODE = '55000', HINT = '`postrider capture create --replace` --key names another key, `postrider capture drop` ends the capture.';
        END IF;
    ELSE
        keys := {NAMES};
        {BEFORE}
        IF {DOUBT} THEN
            RAISE EXCEPTION 'which columns of % are captured cannot be known: it was restored from a dump, and has columns of other names', TG_RELID::regclass
                USING ERRCODE = '55000', HINT = '`postrider capture create --replace` says it anew.';
        END IF;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        {OLD_STREAM}
    END IF;
    IF TG_OP <> 'DELETE' THEN
        {NEW_STREAM}
    END IF;
    same := TG_OP = 'UPDATE' AND old_stream = new_stream;
    IF same AND NOT {UPDATES} THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        {OLD_ROW}
    END IF;
    IF TG_OP <> 'DELETE' THEN
        {NEW_ROW}
    END IF;
    IF same THEN
        IF old_row <> new_row THEN
            {UPDATED}
        END IF;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        {DELETED}
    END IF;
    IF TG_OP <> 'DELETE' THEN
        {INSERTED}
    END IF;
    RETURN NULL;
END;

/* capture.Guard */     IF TG_RELID <> {TABLE} AND NOT EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(TG_RELID) AS a WHERE a.relid = {TABLE})
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = TG_RELID AND pg_catalog.pg_get_userbyid(c.relowner) = current_user) THEN
        RAISE EXCEPTION '% is not the table of this function', TG_RELID::regclass USING ERRCODE = '42501';
    END IF;
    IF pg_catalog.current_setting('postrider.replaying', true) <> '' AND NOT pg_catalog.has_function_privilege(
           CASE pg_catalog.current_setting('role') WHEN 'none' THEN session_user ELSE pg_catalog.current_setting('role') END,
           {FUNCTION}, 'EXECUTE') THEN
        PERFORM pg_catalog.set_config('postrider.replaying', '', true);
    END IF;;

/* capture.Revoked */ DECLARE
    other text;
BEGIN
    FOR other IN SELECT pg_catalog.format('%I', r.rolname)
                   FROM pg_catalog.pg_proc AS p
                  CROSS JOIN LATERAL pg_catalog.aclexplode(p.proacl) AS a
                   JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
                  WHERE p.oid = {FUNCTION}::pg_catalog.regprocedure AND a.grantee <> p.proowner LOOP
        EXECUTE 'REVOKE ALL ON FUNCTION ' || {FUNCTION} || ' FROM ' || other;
    END LOOP;
END;

/* capture.Find */ SELECT c.oid, n.nspname::text, c.relname::text, c.relowner::regrole::text, c.relkind IN ('r', 'p'),
       pg_has_role(c.relowner, 'USAGE'),
       has_schema_privilege(c.relowner, o.oid, 'USAGE') AND has_function_privilege(c.relowner, p.oid, 'EXECUTE'),
       has_schema_privilege(o.oid, 'USAGE') AND has_table_privilege(e.oid, 'SELECT')
           AND has_table_privilege(format('%I.outbox_stream_heads', o.nspname), 'SELECT'),
       c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid),
       to_regclass(format('%I.outbox_schema_version', n.nspname)) IS NOT NULL
           AND (c.relname = ANY ('{events,outbox,outbox_audit,outbox_dedupe_keys,outbox_deliveries,outbox_former_partitions,outbox_ownership,outbox_parked,outbox_partitions,outbox_ready,outbox_replay_sequences,outbox_replays,outbox_schema_version,outbox_settings,outbox_stream_heads,outbox_throughput,outbox_types,outbox_watermark,outbox_workers}'::text[])
                OR EXISTS (SELECT FROM pg_partition_ancestors(c.oid) AS a WHERE a.relid = to_regclass(format('%I.events', n.nspname))))
           OR to_regclass(format('%I.inbox_schema_version', n.nspname)) IS NOT NULL AND c.relname = ANY ('{inbox_callers,inbox_calls,inbox_consumers,inbox_lanes,inbox_malformed,inbox_parked,inbox_readers,inbox_records,inbox_schema_version,inbox_senders,inbox_streams}'::text[]),
       EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND t.tgname = $1)
  FROM pg_namespace AS o
  JOIN pg_class AS e ON e.relnamespace = o.oid AND e.relname = 'events'
  JOIN pg_proc AS p ON p.pronamespace = o.oid AND p.proname = 'outbox_append_bytes' AND p.proowner = e.relowner
 CROSS JOIN pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE o.nspname = $2
   AND EXISTS (SELECT FROM unnest($3::text[], $4::text[]) AS w (schema, name) WHERE w.schema = n.nspname AND w.name = c.relname)
   AND c.relkind IN ('r', 'p', 'v', 'm', 'f');

/* capture.Columns */ SELECT a.attname::text, format_type(coalesce(nullif(t.typbasetype, 0), t.oid), -1), a.attnotnull,
       coalesce(array_position(k.conkey, a.attnum), 0),
       a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%', false), a.attnum, a.atttypid, a.attcollation,
       coalesce((SELECT n.nspname::text
                   FROM pg_index AS i
                   JOIN pg_opclass AS c ON c.oid = i.indclass[array_position(k.conkey, a.attnum) - 1]
                   JOIN pg_amop AS m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype AND m.amopstrategy = 3
                   JOIN pg_operator AS o ON o.oid = m.amopopr
                   JOIN pg_namespace AS n ON n.oid = o.oprnamespace
                  WHERE i.indexrelid = k.conindid AND c.opcmethod = (SELECT b.oid FROM pg_am AS b WHERE b.amname = 'btree')), 'pg_catalog')
  FROM pg_attribute AS a
  JOIN pg_type AS t ON t.oid = a.atttypid
  LEFT JOIN pg_constraint AS k ON k.conrelid = a.attrelid AND k.contype = 'p'
  LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum;

/* capture.Late */ SELECT coalesce(bool_and(NOT i.indimmediate), false)
  FROM pg_index AS i
 WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
   AND (i.indkey::int[])[0:i.indnkeyatts - 1] <@ $2::text::int[];

/* capture.Membership */ SELECT coalesce((SELECT array_agg(a.attname::text ORDER BY a.attnum)
                   FROM pg_attribute AS a
                  WHERE a.attrelid = r.prrelid AND a.attnum::text IN (SELECT (regexp_matches(to_jsonb(r) ->> 'prattrs', '\d+', 'g'))[1])), '{}'),
       coalesce((SELECT to_jsonb(v) ->> 'rowfilter'
                   FROM pg_publication_tables AS v
                  WHERE v.pubname = p.pubname AND v.schemaname = n.nspname AND v.tablename = c.relname), ''),
       to_jsonb(r) ->> 'prqual' IS NOT NULL
  FROM pg_publication AS p
  JOIN pg_publication_rel AS r ON r.prpubid = p.oid
  JOIN pg_class AS c ON c.oid = r.prrelid
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE p.pubname = $1 AND r.prrelid = $2;

/* capture.Published */ SELECT EXISTS (SELECT FROM pg_publication AS p WHERE p.pubname = $1 AND NOT p.puballtables);

/* capture.Installed */ SELECT f.nspname::text, p.proname::text, p.proowner::regrole::text, coalesce(obj_description(p.oid, 'pg_proc'), ''),
       coalesce(t.tgname::text, ''), coalesce(c.oid, 0), coalesce(n.nspname::text, ''), coalesce(c.relname::text, ''), coalesce(t.tgenabled::text, ''),
       coalesce(c.relowner::regrole::text, ''),
       coalesce((SELECT jsonb_object_agg(a.attnum::text, a.attname) FROM pg_attribute AS a
                  WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '{}'),
       ARRAY(SELECT i.inhrelid::regclass::text
               FROM pg_inherits AS i JOIN pg_class AS child ON child.oid = i.inhrelid AND NOT child.relispartition
              WHERE i.inhparent = c.oid
                AND NOT EXISTS (SELECT FROM pg_trigger AS own WHERE own.tgrelid = i.inhrelid AND own.tgname = t.tgname AND own.tgenabled IN ('O', 'A'))
              ORDER BY 1),
       ARRAY(SELECT part.relid::regclass::text
               FROM pg_partition_tree(c.oid) AS part
              WHERE part.level > 0
                AND NOT EXISTS (SELECT FROM pg_trigger AS own
                                 WHERE own.tgrelid = part.relid AND own.tgfoid = p.oid AND own.tgname = t.tgname AND own.tgenabled IN ('O', 'A'))
              ORDER BY 1),
       coalesce((SELECT g.tgenabled::text FROM pg_trigger AS g WHERE g.tgrelid = c.oid AND g.tgfoid = p.oid AND g.tgname = t.tgname || '_truncate'), ''),
       has_schema_privilege(p.proowner, o.oid, 'USAGE') AND (SELECT bool_and(has_function_privilege(p.proowner, append.oid, 'EXECUTE'))
           FROM pg_proc AS append WHERE append.pronamespace = o.oid AND append.proowner = o_events.relowner AND append.proname LIKE 'outbox\_append\_%'
                  AND strpos(p.prosrc, '.' || append.proname || '(') > 0),
       ARRAY(SELECT v.pubname::text FROM pg_publication_tables AS v WHERE v.schemaname = n.nspname AND v.tablename = c.relname)
  FROM pg_namespace AS o
  JOIN pg_class AS o_events ON o_events.relnamespace = o.oid AND o_events.relname = 'events'
 CROSS JOIN pg_proc AS p
  JOIN pg_namespace AS f ON f.oid = p.pronamespace
  LEFT JOIN pg_trigger AS t ON t.tgfoid = p.oid AND t.tgname = ANY ($1::text[]) AND t.tgparentid = 0
  LEFT JOIN pg_class AS c ON c.oid = t.tgrelid
  LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE o.nspname = $2 AND p.prorettype = 'trigger'::regtype AND strpos(p.prosrc, $3) > 0
   AND (t.oid IS NOT NULL OR p.proname LIKE 'postrider\_capture\_%' OR p.proname LIKE 'postrider\_adopt\_%')
 ORDER BY 7, 8, 5, 2;

/* capture.LimitLocks */ SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true),
       set_config('idle_in_transaction_session_timeout', '10s', true), CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', true) END;

-- outbox/importer/sql/*.sql

/* importer.Present */ SELECT e.stream_id, e.stream_version
  FROM unnest($1::text[], $2::bigint[]) AS wanted (stream_id, stream_version)
  JOIN "public".events AS e USING (stream_id, stream_version);

/* importer.RelaxCommit */ SET LOCAL synchronous_commit = off;

-- outbox/schema/sql/*.sql

/* schema.Living */ SELECT w.worker_id, w.heartbeat_until,
       CASE WHEN w.heartbeat_until > clock_timestamp() + w.heartbeat_ttl + $1::interval THEN w.heartbeat_ttl END
  FROM "public".outbox_workers AS w
 WHERE w.heartbeat_until > clock_timestamp();

/* schema.SetPlaces */ WITH asked AS (
       SELECT to_regclass($1) IS NOT NULL AS there,
              (SELECT count(*) FROM "public".outbox_workers AS w
                WHERE w.heartbeat_until > clock_timestamp()
                  AND (w.worker_id, w.heartbeat_until) NOT IN (SELECT * FROM unnest($2::uuid[], $3::timestamptz[]))) AS living),
     stored AS (
       UPDATE "public".outbox_settings AS s
          SET events_relation = $4, stream_name = nullif($5::text, ''), subject_template = nullif($6::text, '')
         FROM asked AS a
        WHERE a.there AND a.living = 0
    RETURNING 1)
SELECT a.there, a.living FROM asked AS a;

/* schema.SetControlPrefix */ WITH asked AS (
       SELECT EXISTS (SELECT FROM "public".outbox_partitions AS p WHERE p.lease_epoch > 0)
              OR EXISTS (SELECT FROM "public".outbox_former_partitions)
              OR EXISTS (SELECT FROM "public".outbox_workers AS w WHERE w.heartbeat_until > clock_timestamp()) AS used),
     stored AS (
       UPDATE "public".outbox_settings AS s
          SET control_prefix = $1
         FROM asked AS a
        WHERE NOT a.used AND s.control_prefix <> $1
    RETURNING 1)
SELECT s.control_prefix, a.used FROM "public".outbox_settings AS s, asked AS a;

/* schema.Creators */ WITH place AS (
       SELECT n.nspname, n.nspowner, n.nspacl, coalesce(c.relowner, (SELECT u.oid FROM pg_roles AS u WHERE u.rolname = current_user)) AS relowner, d.datdba
         FROM pg_namespace AS n
         LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = 'outbox_settings'
         JOIN pg_database AS d ON d.datname = current_database()
        WHERE n.nspname = $1)
SELECT coalesce(r.rolname, 'PUBLIC'),
       CASE WHEN a.grantee = p.nspowner THEN format('ALTER SCHEMA %I OWNER TO %I', p.nspname, pg_get_userbyid(p.relowner))
            WHEN a.grantee = 0 THEN format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', p.nspname)
            ELSE format('REVOKE CREATE ON SCHEMA %I FROM %I', p.nspname, r.rolname) END
  FROM place AS p
 CROSS JOIN LATERAL aclexplode(coalesce(p.nspacl, acldefault('n', p.nspowner))) AS a
  LEFT JOIN pg_roles AS r ON r.oid = a.grantee
  LEFT JOIN pg_roles AS h -- the one member of that role is the database's owner
         ON h.oid = CASE WHEN r.rolname = 'pg_database_owner' THEN p.datdba ELSE a.grantee END
 WHERE a.privilege_type = 'CREATE'
   AND (h.oid IS NULL OR NOT h.rolsuper AND NOT pg_has_role(h.oid, p.relowner, 'MEMBER'))
 ORDER BY 1;

/* schema.Strangers */ SELECT pg_get_userbyid(f.proowner), format('DROP FUNCTION %s', f.oid::regprocedure)
  FROM pg_class AS c
  JOIN pg_proc AS f ON f.pronamespace = c.relnamespace AND f.proowner <> c.relowner
 WHERE c.relname = 'outbox_settings' AND c.relnamespace = to_regnamespace(quote_ident($1))
   AND EXISTS (SELECT FROM pg_proc AS o WHERE o.pronamespace = c.relnamespace AND o.proname = f.proname AND o.proowner = c.relowner)
 ORDER BY 2;

-- projection/sql/*.sql

/* projection.Define */ CREATE TABLE IF NOT EXISTS "public".projection_streams (
    applied_version  bigint NOT NULL DEFAULT 0 CHECK (applied_version >= 0),
    expected_version bigint NOT NULL DEFAULT 1 CHECK (expected_version >= 1),
    wanted_version   bigint NOT NULL DEFAULT 0,
    lease_epoch      bigint NOT NULL DEFAULT 0,
    due_at           timestamptz,
    planned_at       timestamptz,
    lease_until      timestamptz,
    dead_at          timestamptz,
    applied_at       timestamptz,
    lease_owner      uuid,
    applied_event    uuid,
    attempts         int NOT NULL DEFAULT 0,
    stream_id        text COLLATE "C" PRIMARY KEY,
    fingerprint      text NOT NULL DEFAULT '',
    last_error       text
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS projection_streams_due_idx ON "public".projection_streams (due_at, stream_id) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS projection_streams_dead_idx ON "public".projection_streams (dead_at, stream_id) WHERE dead_at IS NOT NULL;;

/* projection.Ensure */ INSERT INTO "public".projection_streams (stream_id) VALUES ($1) ON CONFLICT DO NOTHING;

/* projection.Announce */ WITH bell AS MATERIALIZED (
    SELECT b.stream_id COLLATE "C" AS stream_id, b.version FROM unnest($1::text[], $2::bigint[]) AS b (stream_id, version)),
known AS MATERIALIZED (
    SELECT s.stream_id, b.version FROM "public".projection_streams AS s JOIN bell AS b ON b.stream_id = s.stream_id
       FOR UPDATE OF s SKIP LOCKED),
changed AS (
    UPDATE "public".projection_streams AS s
       SET wanted_version = greatest(s.wanted_version, k.version),
           due_at = CASE WHEN s.dead_at IS NOT NULL OR s.applied_version >= k.version THEN s.due_at
                         ELSE coalesce(s.due_at, pg_catalog.clock_timestamp()) END,
           planned_at = CASE WHEN s.due_at IS NULL THEN pg_catalog.clock_timestamp() ELSE s.planned_at END
      FROM known AS k
     WHERE s.stream_id = k.stream_id
       AND (s.wanted_version < k.version OR s.applied_version < k.version AND s.due_at IS NULL AND s.dead_at IS NULL)),
added AS (
    INSERT INTO "public".projection_streams (stream_id, wanted_version, due_at, planned_at)
    SELECT b.stream_id, b.version, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() FROM bell AS b
     WHERE NOT EXISTS (SELECT FROM "public".projection_streams AS s WHERE s.stream_id = b.stream_id)
     ORDER BY b.stream_id -- two processes that get to know the same streams wait for each other's rows: in one order, or forever
    ON CONFLICT DO NOTHING
    RETURNING stream_id)
SELECT stream_id FROM known UNION ALL SELECT stream_id FROM added;

/* projection.Claim */ WITH due AS MATERIALIZED (
    SELECT stream_id FROM "public".projection_streams
     WHERE due_at <= pg_catalog.statement_timestamp() AND dead_at IS NULL
     ORDER BY due_at, stream_id LIMIT $1 FOR UPDATE SKIP LOCKED)
UPDATE "public".projection_streams AS s
   SET lease_owner = $2, lease_epoch = s.lease_epoch + 1,
       lease_until = pg_catalog.clock_timestamp() + $3::interval, due_at = pg_catalog.clock_timestamp() + $3::interval,
       planned_at = pg_catalog.clock_timestamp()
  FROM due
 WHERE s.stream_id = due.stream_id
RETURNING s.stream_id, s.lease_epoch, s.attempts;

/* projection.Ahead */ SELECT stream_id, lease_epoch, lease_until, due_at - planned_at
  FROM "public".projection_streams
 WHERE due_at > pg_catalog.statement_timestamp()
   AND planned_at > pg_catalog.clock_timestamp() + CASE WHEN lease_until IS NULL THEN '0' ELSE $1::interval END
 ORDER BY due_at, stream_id LIMIT $2;

/* projection.Advance */ WITH seen AS MATERIALIZED (
    SELECT s.stream_id FROM "public".projection_streams AS s
      JOIN unnest($1::text[], $2::bigint[]) AS z (stream_id, epoch) ON z.stream_id COLLATE "C" = s.stream_id AND z.epoch = s.lease_epoch
     WHERE s.due_at > pg_catalog.clock_timestamp() AND s.planned_at > pg_catalog.clock_timestamp()
     ORDER BY s.stream_id FOR UPDATE OF s SKIP LOCKED)
UPDATE "public".projection_streams AS s
   SET due_at = pg_catalog.clock_timestamp(), planned_at = pg_catalog.clock_timestamp()
  FROM seen
 WHERE s.stream_id = seen.stream_id;

/* projection.Lock */ SELECT applied_version, expected_version, wanted_version, applied_event
  FROM "public".projection_streams
 WHERE stream_id = $1 AND lease_owner = $2 AND lease_epoch = $3
   FOR UPDATE;

/* projection.Seize */ SELECT applied_version, expected_version, wanted_version, applied_event
  FROM "public".projection_streams
 WHERE stream_id = $1
   FOR UPDATE;

/* projection.Done */ UPDATE "public".projection_streams
   SET applied_version = $1::bigint, expected_version = $1::bigint + 1, applied_event = coalesce($2, applied_event),
       fingerprint = $3, wanted_version = greatest(wanted_version, $1::bigint),
       applied_at = CASE WHEN applied_version = $1::bigint THEN applied_at ELSE pg_catalog.clock_timestamp() END,
       attempts = 0, last_error = NULL, lease_owner = NULL, lease_until = NULL,
       due_at = CASE WHEN $4 OR wanted_version > $1::bigint THEN pg_catalog.clock_timestamp() + coalesce($5::interval, '0') END,
       planned_at = pg_catalog.clock_timestamp()
 WHERE stream_id = $6 AND lease_owner = $7 AND lease_epoch = $8
   AND applied_version = $9 AND $1::bigint >= applied_version;

/* projection.Fail */ UPDATE "public".projection_streams
   SET attempts = $1, last_error = $2, lease_owner = NULL, lease_until = NULL,
       dead_at = CASE WHEN $3::boolean THEN pg_catalog.clock_timestamp() END,
       due_at = CASE WHEN NOT $3::boolean THEN pg_catalog.clock_timestamp() + $4::interval END,
       planned_at = pg_catalog.clock_timestamp()
 WHERE stream_id = $5 AND lease_owner = $6 AND lease_epoch = $7;

/* projection.Release */ UPDATE "public".projection_streams
   SET lease_owner = NULL, lease_until = NULL, due_at = pg_catalog.clock_timestamp() + $1::interval, planned_at = pg_catalog.clock_timestamp()
 WHERE stream_id = $2 AND lease_owner = $3 AND lease_epoch = $4;

/* projection.Put */ UPDATE "public".projection_streams
   SET applied_version = $1::bigint, expected_version = $1::bigint + 1, applied_event = $2, fingerprint = $3,
       wanted_version = greatest($4::bigint, $1::bigint),
       applied_at = CASE WHEN applied_version = $1::bigint THEN applied_at ELSE pg_catalog.clock_timestamp() END,
       attempts = CASE WHEN applied_version = $1::bigint THEN attempts ELSE 0 END,
       last_error = CASE WHEN applied_version = $1::bigint THEN last_error END,
       dead_at = CASE WHEN applied_version = $1::bigint THEN dead_at END,
       lease_epoch = lease_epoch + 1, lease_owner = NULL, lease_until = NULL,
       due_at = CASE WHEN $4::bigint <= $1::bigint OR applied_version = $1::bigint AND dead_at IS NOT NULL THEN NULL
                     WHEN applied_version = $1::bigint AND lease_owner IS NULL THEN coalesce(due_at, pg_catalog.clock_timestamp())
                     ELSE pg_catalog.clock_timestamp() END,
       planned_at = CASE WHEN applied_version = $1::bigint AND lease_owner IS NULL THEN coalesce(planned_at, pg_catalog.clock_timestamp())
                         ELSE pg_catalog.clock_timestamp() END
 WHERE stream_id = $5;

/* projection.Requeue */ WITH dead AS MATERIALIZED (
    SELECT stream_id, dead_at FROM "public".projection_streams
     WHERE dead_at IS NOT NULL AND ($1::text IS NULL OR stream_id = $1::text)
     ORDER BY dead_at, stream_id LIMIT $2 FOR UPDATE),
changed AS (
    UPDATE "public".projection_streams AS s
       SET dead_at = NULL, attempts = 0, last_error = NULL, due_at = pg_catalog.clock_timestamp(), planned_at = pg_catalog.clock_timestamp()
      FROM dead AS d WHERE s.stream_id = d.stream_id
    RETURNING s.stream_id)
SELECT d.stream_id FROM dead AS d JOIN changed AS c ON c.stream_id = d.stream_id ORDER BY d.dead_at, d.stream_id;

/* projection.Summary */ SELECT pg_catalog.count(*) FILTER (WHERE dead_at IS NULL AND due_at IS NULL),
       pg_catalog.count(*) FILTER (WHERE dead_at IS NULL AND due_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= pg_catalog.statement_timestamp())
                          AND attempts = 0 AND last_error IS NULL),
       pg_catalog.count(*) FILTER (WHERE dead_at IS NULL AND lease_until > pg_catalog.statement_timestamp()),
       pg_catalog.count(*) FILTER (WHERE dead_at IS NULL AND due_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= pg_catalog.statement_timestamp())
                          AND (attempts > 0 OR last_error IS NOT NULL)),
       pg_catalog.count(*) FILTER (WHERE dead_at IS NOT NULL),
       least(coalesce(pg_catalog.sum(wanted_version - applied_version) FILTER (WHERE wanted_version > applied_version), 0), 9223372036854775807)::bigint,
       least(coalesce(pg_catalog.sum(wanted_version - applied_version) FILTER (WHERE dead_at IS NOT NULL AND wanted_version > applied_version), 0), 9223372036854775807)::bigint,
       pg_catalog.min(dead_at),
       greatest(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(dead_at)), 0)::float8,
       coalesce(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(due_at) FILTER (WHERE due_at <= pg_catalog.statement_timestamp())), 0)::float8
  FROM "public".projection_streams;

/* projection.List */ SELECT stream_id, state, applied_version, expected_version, wanted_version, attempts, due_at, dead_at, applied_at,
       lease_owner, lease_until, coalesce(last_error, '')
  FROM (SELECT *, CASE WHEN dead_at IS NOT NULL THEN 'dead'
                       WHEN lease_until > pg_catalog.statement_timestamp() THEN 'processing'
                       WHEN due_at IS NULL THEN 'current'
                       WHEN attempts > 0 OR last_error IS NOT NULL THEN 'failed'
                       ELSE 'pending' END AS state
          FROM "public".projection_streams) AS s
 WHERE $1::text IS NULL OR state = $1::text
 ORDER BY dead_at NULLS LAST, due_at NULLS LAST, stream_id
 LIMIT $2;

/* projection.Eligible */ SELECT stream_id, 'failed', applied_version, expected_version, wanted_version, attempts, due_at, dead_at, applied_at,
       lease_owner, lease_until, coalesce(last_error, '')
  FROM "public".projection_streams
 WHERE dead_at IS NULL AND due_at IS NOT NULL AND (attempts > 0 OR last_error IS NOT NULL)
   AND (lease_until IS NULL OR lease_until <= pg_catalog.statement_timestamp())
 ORDER BY due_at, stream_id LIMIT 1;

/* projection.Enter */ SELECT pg_catalog.set_config('search_path', $1, true), pg_catalog.set_config('TimeZone', 'UTC', true),
       pg_catalog.set_config('DateStyle', 'ISO, YMD', true), pg_catalog.set_config('IntervalStyle', 'postgres', true),
       pg_catalog.set_config('extra_float_digits', '1', true), pg_catalog.set_config('bytea_output', 'hex', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', $2, true);

/* projection.Hasten */ SELECT pg_catalog.set_config('synchronous_commit', 'off', true);

/* projection.Settings */ SELECT pg_catalog.current_setting(n) FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY AS s (n, i) ORDER BY i;

/* projection.SettingsBack */ SELECT pg_catalog.set_config(n, v, true) FROM unnest($1::text[], $2::text[]) AS s (n, v);

-- projection/sql/journal/*.sql

/* projection.Read */ SELECT sequence, stream_id, stream_version, event_id, event_type, topic, coalesce(tenant_id, ''), payload, metadata,
       least(greatest(occurred_at, '0001-01-01 00:00:00.000001Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz),
       least(greatest(recorded_at, '0001-01-01 00:00:00.000001Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz), audit_only,
       extract(epoch FROM greatest(pg_catalog.clock_timestamp() - greatest(least(recorded_at, pg_catalog.clock_timestamp()),
                                   pg_catalog.clock_timestamp() - interval '100 years'), interval '0'))::float8
  FROM "public".events
 WHERE stream_id = $1 AND stream_version >= $2
 ORDER BY stream_version LIMIT $3;

/* projection.Hidden */ SELECT pg_catalog.row_security_active('"public".events');

/* projection.Dropped */ SELECT h.stream_id, h.stream_version
  FROM "public".outbox_stream_heads AS h
 WHERE NOT EXISTS (SELECT FROM "public".events AS e WHERE e.stream_id = h.stream_id);

/* projection.DroppedTo */ SELECT coalesce(pg_catalog.max(h.stream_version), 0) FROM "public".outbox_stream_heads AS h
 WHERE h.stream_id = $1 AND NOT EXISTS (SELECT FROM "public".events AS e WHERE e.stream_id = $1);

/* projection.Heads */ WITH RECURSIVE streams (stream_id) AS (
    (SELECT stream_id FROM "public".events ORDER BY stream_id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.stream_id FROM "public".events AS e WHERE e.stream_id > s.stream_id ORDER BY e.stream_id LIMIT 1)
      FROM streams AS s WHERE s.stream_id IS NOT NULL)
SELECT s.stream_id, first.stream_version, last.stream_version, last.event_id, coalesce(wanted.stream_version, 0),
       coalesce(wanted.recorded_at NOT BETWEEN pg_catalog.clock_timestamp() - $1::interval AND pg_catalog.clock_timestamp(), false)
  FROM streams AS s
 CROSS JOIN LATERAL (SELECT e.stream_version FROM "public".events AS e
                      WHERE e.stream_id = s.stream_id ORDER BY e.stream_version LIMIT 1) AS first
 CROSS JOIN LATERAL (SELECT e.stream_version, e.event_id FROM "public".events AS e
                      WHERE e.stream_id = s.stream_id ORDER BY e.stream_version DESC LIMIT 1) AS last
  LEFT JOIN LATERAL (SELECT e.stream_version, e.recorded_at FROM "public".events AS e
                      WHERE e.stream_id = s.stream_id AND NOT e.audit_only ORDER BY e.stream_version DESC LIMIT 1) AS wanted ON true
 WHERE s.stream_id IS NOT NULL
 ORDER BY s.stream_id COLLATE "C";
