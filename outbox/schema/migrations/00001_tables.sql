-- The tables of the outbox. All times come from the database's clock.
--
-- Roles. The migration creates none. It is run by the owner, who needs no login
-- in the service itself. The narrowest rights that work (replace the role names):
--
--   GRANT USAGE ON SCHEMA {schema} TO app_producer, app_relay, app_monitor, app_operator;
--   -- producer: the three append functions and nothing else
--   GRANT EXECUTE ON FUNCTION {schema}.outbox_append, {schema}.outbox_append_bytes,
--                             {schema}.outbox_append_batch TO app_producer;
--   -- relay: reads events, never writes them (a writer of events would hold
--   -- back its own watermark), and works on the outbox_ tables
--   GRANT SELECT ON {schema}.events, {schema}.outbox_settings, {schema}.outbox_schema_version TO app_relay;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.outbox, {schema}.outbox_ready, {schema}.outbox_parked,
--         {schema}.outbox_deliveries, {schema}.outbox_workers, {schema}.outbox_throughput TO app_relay;
--   GRANT SELECT, UPDATE ON {schema}.outbox_partitions TO app_relay;
--   GRANT DELETE, SELECT ON {schema}.outbox_dedupe_keys TO app_relay;
--   GRANT INSERT ON {schema}.outbox_audit TO app_relay;
--   -- monitor: everything but the payload
--   GRANT SELECT ON {schema}.outbox_messages, {schema}.outbox, {schema}.outbox_deliveries, {schema}.outbox_partitions,
--         {schema}.outbox_workers, {schema}.outbox_throughput, {schema}.outbox_audit, {schema}.outbox_settings TO app_monitor;
--   -- operator: the monitor's rights, and
--   GRANT UPDATE, DELETE ON {schema}.outbox, {schema}.outbox_ready, {schema}.outbox_parked TO app_operator;
--   GRANT INSERT ON {schema}.outbox, {schema}.outbox_ready, {schema}.outbox_parked,
--         {schema}.outbox_deliveries, {schema}.outbox_audit TO app_operator;
--   GRANT UPDATE (paused_at, updated_at) ON {schema}.outbox_partitions TO app_operator;
--
-- A role that must insert into events without the functions gets column grants,
-- never a table grant: a table grant admits OVERRIDING SYSTEM VALUE and with it
-- a sequence drawn before the row was written, which breaks the safe watermark.
--
--   GRANT INSERT (event_id, stream_id, stream_version, event_type, topic, payload, metadata,
--                 tenant_id, routing_key, audit_only, occurred_at) ON {schema}.events TO app_producer;

-- +goose Up
CREATE TABLE {schema}.outbox_settings (
    id                boolean     PRIMARY KEY DEFAULT true CHECK (id),
    partition_count   int         NOT NULL CHECK (partition_count BETWEEN 1 AND 32767),
    max_payload_bytes bigint      NOT NULL DEFAULT 67108864 CHECK (max_payload_bytes > 0),
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO {schema}.outbox_settings (partition_count) VALUES ({partitions});

-- Columns go from wide fixed lengths to variable ones, so that no row carries
-- padding between them. The payload is bytea: what is published is byte for byte
-- what the producer gave, and the relay pays no jsonb output function.
-- CACHE 1 and an identity drawn inside the INSERT are what the watermark rests on.
CREATE TABLE {schema}.events (
    sequence       bigint      GENERATED ALWAYS AS IDENTITY (CACHE 1),
    stream_version bigint      NOT NULL CONSTRAINT events_stream_version_check CHECK (stream_version > 0),
    occurred_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    event_id       uuid        NOT NULL DEFAULT gen_random_uuid(),
    audit_only     boolean     NOT NULL DEFAULT false,
    stream_id      text        NOT NULL,
    event_type     text        NOT NULL,
    topic          text        NOT NULL DEFAULT 'default',
    tenant_id      text,
    routing_key    text,
    metadata       jsonb,
    payload        bytea       NOT NULL,
    CONSTRAINT events_pkey               PRIMARY KEY (sequence),
    CONSTRAINT events_event_id_key       UNIQUE (event_id),
    CONSTRAINT events_stream_version_key UNIQUE (stream_id, stream_version)
);
COMMENT ON TABLE {schema}.events IS 'Append-only. Written by producers, read by the relay.';
COMMENT ON COLUMN {schema}.events.routing_key IS 'What the partition was computed from; NULL means stream_id. Kept so that a change of the partition count can compute it again.';
COMMENT ON COLUMN {schema}.events.audit_only IS 'Never published: the event has no pointer row.';

-- One pointer row per event that is not yet published; publishing deletes it.
-- Rows to publish now are apart from rows that cannot be (failed and waiting,
-- dead, scheduled for later, blocked behind an earlier row of their stream), so
-- that the hot path never wades through these.
CREATE TABLE {schema}.outbox (
    global_sequence bigint      NOT NULL,
    available_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    dead_at         timestamptz,
    generation      int         NOT NULL DEFAULT 0,
    attempts        int         NOT NULL DEFAULT 0,
    partition_key   smallint    NOT NULL,
    parked          boolean     NOT NULL DEFAULT false,
    blocked         boolean     NOT NULL DEFAULT false,
    stream_id       text        NOT NULL,
    topic           text        NOT NULL DEFAULT 'default',
    last_error      text,
    CONSTRAINT outbox_pkey PRIMARY KEY (partition_key, global_sequence, parked)
) PARTITION BY LIST (parked);

-- Every row of outbox_ready is deleted soon after it was inserted. Vacuum must
-- follow the number of dead rows, not the size of the table, and must not
-- truncate and regrow a heap that empties many times a second.
CREATE TABLE {schema}.outbox_ready PARTITION OF {schema}.outbox FOR VALUES IN (false) WITH (
    vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 20000,
    autovacuum_vacuum_cost_delay = 1
);
CREATE TABLE {schema}.outbox_parked PARTITION OF {schema}.outbox FOR VALUES IN (true) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000
);
CREATE INDEX outbox_parked_stream_idx ON {schema}.outbox_parked (partition_key, stream_id, global_sequence);
CREATE INDEX outbox_parked_due_idx ON {schema}.outbox_parked (partition_key, available_at)
    WHERE NOT blocked AND dead_at IS NULL;
COMMENT ON COLUMN {schema}.outbox.parked IS 'false: publish now. true: waits for a retry, a time, an earlier row of its stream, or a person.';
COMMENT ON COLUMN {schema}.outbox.generation IS 'Raised by requeue and replay; above 0 it is part of the message id.';

-- global_sequence is NULL only inside the transaction that takes the key.
CREATE TABLE {schema}.outbox_dedupe_keys (
    global_sequence bigint,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    topic           text        NOT NULL,
    dedupe_key      text        NOT NULL,
    CONSTRAINT outbox_dedupe_keys_pkey PRIMARY KEY (topic, dedupe_key)
) WITH (fillfactor = 90);
CREATE INDEX outbox_dedupe_keys_created_idx ON {schema}.outbox_dedupe_keys USING brin (created_at);

-- The published history, one row per batch.
CREATE TABLE {schema}.outbox_deliveries (
    id                    bigint      GENERATED ALWAYS AS IDENTITY,
    lease_epoch           bigint      NOT NULL,
    first_sequence        bigint      NOT NULL,
    last_sequence         bigint      NOT NULL,
    first_stream_sequence bigint,
    last_stream_sequence  bigint,
    published_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    message_count         int         NOT NULL,
    partition_key         smallint    NOT NULL,
    sequences             bigint[],
    stream_sequences      bigint[],
    skipped               bigint[],
    attempts              jsonb,
    generations           jsonb,
    CONSTRAINT outbox_deliveries_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_deliveries_range_check CHECK (first_sequence <= last_sequence)
);
CREATE INDEX outbox_deliveries_published_idx ON {schema}.outbox_deliveries (published_at);
CREATE INDEX outbox_deliveries_sequence_idx ON {schema}.outbox_deliveries (partition_key, first_sequence);
CREATE INDEX outbox_deliveries_generations_idx ON {schema}.outbox_deliveries (id) WHERE generations IS NOT NULL;
COMMENT ON COLUMN {schema}.outbox_deliveries.sequences IS 'Ascending; NULL when first_sequence..last_sequence has no holes.';
COMMENT ON COLUMN {schema}.outbox_deliveries.stream_sequences IS 'One entry per sequence, in their order, NULL for a skipped one; NULL as a whole when first_stream_sequence..last_stream_sequence are consecutive and nothing was skipped.';
COMMENT ON COLUMN {schema}.outbox_deliveries.skipped IS 'The sequences of the batch that were settled without a message.';
COMMENT ON COLUMN {schema}.outbox_deliveries.message_count IS 'Messages published; skipped rows are not counted.';
COMMENT ON COLUMN {schema}.outbox_deliveries.attempts IS '{"sequence": n} for rows that had failed before.';
COMMENT ON COLUMN {schema}.outbox_deliveries.generations IS '{"sequence": n} for rows of a generation above 0; an earlier delivery of such a sequence is superseded.';

-- Lease, fence and progress of a partition in one row: every write under a lease
-- is a compare-and-set on it. Updates must stay HOT, hence the room and no index.
CREATE TABLE {schema}.outbox_partitions (
    lease_epoch     bigint      NOT NULL DEFAULT 0,
    delivered       bigint      NOT NULL DEFAULT 0,
    fence_sequence  bigint      NOT NULL DEFAULT 0,
    stream_sequence bigint      NOT NULL DEFAULT 0,
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_until     timestamptz,
    paused_at       timestamptz,
    lease_owner     uuid,
    partition_key   smallint    NOT NULL,
    CONSTRAINT outbox_partitions_pkey PRIMARY KEY (partition_key),
    CONSTRAINT outbox_partitions_key_check CHECK (partition_key >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);
INSERT INTO {schema}.outbox_partitions (partition_key)
SELECT p FROM generate_series(0, {partitions} - 1) AS p;

CREATE TABLE {schema}.outbox_workers (
    started_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_until timestamptz NOT NULL,
    worker_id       uuid        NOT NULL,
    pid             int,
    state           text        NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'draining')),
    hostname        text,
    version         text,
    CONSTRAINT outbox_workers_pkey PRIMARY KEY (worker_id)
) WITH (fillfactor = 50, vacuum_truncate = off);

CREATE TABLE {schema}.outbox_throughput (
    minute        timestamptz NOT NULL,
    published     bigint      NOT NULL DEFAULT 0,
    failed        bigint      NOT NULL DEFAULT 0,
    retried       bigint      NOT NULL DEFAULT 0,
    skipped       bigint      NOT NULL DEFAULT 0,
    partition_key smallint    NOT NULL,
    CONSTRAINT outbox_throughput_pkey PRIMARY KEY (minute, partition_key)
) WITH (fillfactor = 50);

CREATE TABLE {schema}.outbox_audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text        NOT NULL,
    action  text        NOT NULL,
    target  jsonb,
    reason  text,
    details jsonb,
    CONSTRAINT outbox_audit_pkey PRIMARY KEY (id)
);
CREATE INDEX outbox_audit_at_idx ON {schema}.outbox_audit (at);

-- One row per event that the outbox knows. Published rows are unnested from the
-- history and joined from the outside, so that count(*) never touches events.
-- A row that was replayed stands in the history twice, or in the queue again: its
-- earlier deliveries are left out. Which these are is looked up in one JSON object,
-- NULL while nothing was replayed; as an anti join the planner, which cannot know
-- what is in the arrays, makes it quadratic.
CREATE VIEW {schema}.outbox_messages AS
SELECT o.global_sequence,
       o.partition_key,
       o.stream_id,
       o.topic,
       CASE WHEN o.dead_at IS NOT NULL THEN 'dead'
            WHEN o.blocked             THEN 'blocked'
            WHEN o.attempts > 0        THEN 'failed'
            ELSE 'pending' END AS state,
       o.attempts,
       o.available_at,
       NULL::timestamptz AS published_at,
       NULL::bigint      AS stream_sequence,
       o.last_error,
       o.generation
  FROM {schema}.outbox AS o
 UNION ALL
SELECT m.global_sequence,
       m.partition_key,
       e.stream_id,
       e.topic,
       CASE WHEN m.stream_sequence IS NULL THEN 'skipped' ELSE 'published' END,
       m.attempts,
       NULL::timestamptz,
       m.published_at,
       m.stream_sequence,
       NULL::text,
       m.generation
  FROM (WITH superseded AS MATERIALIZED (
               SELECT jsonb_object_agg(r.sequence, r.id) AS before
                 FROM (SELECT g.sequence, max(g.id) AS id
                         FROM (SELECT k.sequence, d.id
                                 FROM {schema}.outbox_deliveries AS d
                                CROSS JOIN LATERAL jsonb_object_keys(d.generations) AS k (sequence)
                                WHERE d.generations IS NOT NULL
                                UNION ALL
                               SELECT o.global_sequence::text, 9223372036854775807
                                 FROM {schema}.outbox AS o
                                WHERE o.generation > 0) AS g
                        GROUP BY g.sequence) AS r)
        SELECT d.partition_key,
               d.published_at,
               s.sequence AS global_sequence,
               CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1
                    ELSE s.stream_sequence END AS stream_sequence,
               CASE WHEN d.attempts IS NULL THEN 0
                    ELSE coalesce((d.attempts ->> s.sequence::text)::int, 0) END AS attempts,
               CASE WHEN d.generations IS NULL THEN 0
                    ELSE coalesce((d.generations ->> s.sequence::text)::int, 0) END AS generation
          FROM {schema}.outbox_deliveries AS d
         CROSS JOIN LATERAL unnest(
                 coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
                 d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
         CROSS JOIN superseded AS u
         WHERE u.before IS NULL OR coalesce((u.before ->> s.sequence::text)::bigint <= d.id, true)) AS m
  LEFT JOIN {schema}.events AS e ON e.sequence = m.global_sequence;
COMMENT ON VIEW {schema}.outbox_messages IS 'States: pending, failed (will retry), blocked (behind another row), dead, published, skipped.';

-- +goose Down
DROP VIEW {schema}.outbox_messages;
DROP TABLE {schema}.outbox_audit;
DROP TABLE {schema}.outbox_throughput;
DROP TABLE {schema}.outbox_workers;
DROP TABLE {schema}.outbox_partitions;
DROP TABLE {schema}.outbox_deliveries;
DROP TABLE {schema}.outbox_dedupe_keys;
DROP TABLE {schema}.outbox;
DROP TABLE {schema}.events;
DROP TABLE {schema}.outbox_settings;
