-- The tables of the outbox. All times come from the database's clock.
--
-- Roles. The migrations create none. They are run by the owner, who needs no login
-- in the service itself. The narrowest rights that work (replace the role names):
--
--   GRANT USAGE ON SCHEMA {schema} TO app_producer, app_relay, app_monitor, app_operator;
--   -- producer: the append functions and nothing else; outbox_without_enqueue where it marks a transaction
--   GRANT EXECUTE ON FUNCTION {schema}.outbox_append, {schema}.outbox_append_one, {schema}.outbox_append_bytes,
--                             {schema}.outbox_append_one_bytes, {schema}.outbox_append_batch, {schema}.outbox_append_adopted, {schema}.outbox_without_enqueue TO app_producer;
--   -- relay: reads events, never writes them (a writer of events would hold
--   -- back its own watermark), and works on the outbox_ tables
--   GRANT SELECT ON {schema}.events, {schema}.outbox_settings, {schema}.outbox_schema_version TO app_relay;
--   GRANT UPDATE (generation, regressed) ON {schema}.outbox_settings TO app_relay;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.outbox, {schema}.outbox_ready, {schema}.outbox_parked,
--         {schema}.outbox_deliveries, {schema}.outbox_workers, {schema}.outbox_throughput TO app_relay;
--   GRANT SELECT, UPDATE ON {schema}.outbox_partitions, {schema}.outbox_former_partitions, {schema}.outbox_watermark TO app_relay;
--   GRANT SELECT, UPDATE, DELETE ON {schema}.outbox_dedupe_keys TO app_relay; -- what is swept is locked before
--   GRANT SELECT, INSERT, DELETE ON {schema}.outbox_ownership TO app_relay;
--   GRANT INSERT ON {schema}.outbox_audit TO app_relay;
--   -- a worker whose monitor shows the audit
--   GRANT SELECT ON {schema}.outbox_audit TO app_relay;
--   -- monitor: everything but the payload; how long events take if it may read when they were recorded
--   GRANT SELECT ON {schema}.outbox_messages, {schema}.outbox, {schema}.outbox_ready, {schema}.outbox_parked, {schema}.outbox_deliveries,
--         {schema}.outbox_partitions, {schema}.outbox_workers, {schema}.outbox_throughput, {schema}.outbox_audit, {schema}.outbox_settings,
--         {schema}.outbox_watermark, {schema}.outbox_schema_version, {schema}.outbox_replays, {schema}.outbox_ownership,
--         {schema}.outbox_types TO app_monitor;
--   GRANT SELECT (sequence, recorded_at) ON {schema}.events TO app_monitor;
--   -- operator: the monitor's rights, and who requeues, skips, discards, replays
--   -- and repairs gaps; the payload only where it may be shown
--   GRANT INSERT, UPDATE, DELETE ON {schema}.outbox, {schema}.outbox_ready, {schema}.outbox_parked TO app_operator;
--   GRANT INSERT ON {schema}.outbox_deliveries, {schema}.outbox_audit TO app_operator;
--   GRANT SELECT, INSERT, UPDATE ON {schema}.outbox_throughput, {schema}.outbox_replays TO app_operator;
--   GRANT SELECT, INSERT, DELETE ON {schema}.outbox_replay_sequences TO app_operator;
--   GRANT UPDATE (paused_at, updated_at) ON {schema}.outbox_partitions TO app_operator;
--   GRANT UPDATE (drain_requested_at) ON {schema}.outbox_workers TO app_operator;
--   GRANT SELECT (sequence, event_id, stream_id, stream_version, event_type, topic, metadata,
--                 tenant_id, routing_key, audit_only, occurred_at, recorded_at) ON {schema}.events TO app_operator;
--   -- relay, monitor, operator: a sequence that stands behind its table is named
--   GRANT SELECT ON SEQUENCE {schema}.events_sequence_seq TO app_relay, app_monitor, app_operator;
--   -- who says what payloads must look like
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.outbox_types TO app_operator;
--   GRANT EXECUTE ON FUNCTION {schema}.outbox_schema_problem TO app_operator;
--   -- who changes the number of partitions
--   GRANT UPDATE ON {schema}.outbox_deliveries TO app_operator;
--   GRANT UPDATE (partition_count, generation, regressed, frozen_at, frozen_by, resized_at, resized_delivery) ON {schema}.outbox_settings TO app_operator;
--   GRANT INSERT, UPDATE, DELETE ON {schema}.outbox_partitions TO app_operator;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.outbox_former_partitions TO app_operator;
--   GRANT INSERT ON {schema}.outbox_ownership TO app_operator;
--   -- names the transaction that holds the watermark back
--   GRANT pg_read_all_stats TO app_relay, app_monitor;
--
-- A role that must insert into events without the functions gets column grants,
-- never a table grant: a table grant admits OVERRIDING SYSTEM VALUE and with it
-- a sequence drawn before the row was written, which breaks the safe watermark.
--
--   GRANT INSERT (event_id, stream_id, stream_version, event_type, topic, payload, metadata,
--                 tenant_id, routing_key, audit_only, occurred_at) ON {schema}.events TO app_producer;

-- +goose Up
-- NATS advises against messages above 8 MiB, and takes 1 MiB unless it is told otherwise:
-- what is larger fails where it is appended, not when it is published.
-- Where the events are is the database's to say: a command that was told otherwise
-- would look at other events than the workers.
CREATE TABLE {schema}.outbox_settings (
    id                boolean     PRIMARY KEY DEFAULT true CHECK (id),
    partition_count   int         NOT NULL CHECK (partition_count BETWEEN 1 AND 32767),
    max_payload_bytes bigint      NOT NULL DEFAULT 8388608 CHECK (max_payload_bytes > 0),
    max_checked_bytes bigint      NOT NULL DEFAULT 1048576 CHECK (max_checked_bytes > 0),
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    outbox_id         uuid        NOT NULL DEFAULT gen_random_uuid(),
    generation        int         NOT NULL DEFAULT 0,
    regressed         timestamptz,
    frozen_at         timestamptz,
    frozen_by         uuid,
    resized_at        timestamptz,
    resized_delivery  bigint,
    usable_from       int         NOT NULL DEFAULT 1,
    events_in_parts   boolean     NOT NULL DEFAULT false,
    events_from       bigint      NOT NULL DEFAULT 0,
    control_prefix    text        NOT NULL DEFAULT 'outbox.fence'
        CONSTRAINT outbox_settings_control_prefix_check
        CHECK (control_prefix ~ '^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$' AND length(control_prefix) <= 100),
    stream_name       text
        CONSTRAINT outbox_settings_stream_name_check
        CHECK (stream_name ~ '^[^[:space:].*>/\\]{1,255}$'),
    subject_template  text
        CONSTRAINT outbox_settings_subject_template_check
        CHECK (subject_template ~ '^[A-Za-z0-9_-]+([.]([A-Za-z0-9_-]+|[{](topic|type|partition|stream|tenant)[}]))*$' AND length(subject_template) <= 500),
    events_relation   text        NOT NULL DEFAULT 'events'
        CONSTRAINT outbox_settings_events_relation_check
        CHECK (events_relation ~ '^[A-Za-z_][A-Za-z0-9_]{0,62}([.][A-Za-z_][A-Za-z0-9_]{0,62})?$')
);
INSERT INTO {schema}.outbox_settings (partition_count) VALUES ({partitions});
COMMENT ON COLUMN {schema}.outbox_settings.max_payload_bytes IS 'The append functions refuse larger payloads. Where it is above 8 MiB, workers read as much.';
COMMENT ON COLUMN {schema}.outbox_settings.max_checked_bytes IS 'The append functions refuse larger payloads of types that are checked: a check costs memory for each of up to 64 levels, and some 30 us a value.';
COMMENT ON COLUMN {schema}.outbox_settings.outbox_id IS 'Keeps the control subjects of several outboxes on one stream apart.';
COMMENT ON COLUMN {schema}.outbox_settings.generation IS 'Raised when the database turned out to have forgotten what was published; added to every message''s generation.';
COMMENT ON COLUMN {schema}.outbox_settings.regressed IS 'When generation was raised last because the database had forgotten published events.';
COMMENT ON COLUMN {schema}.outbox_settings.frozen_at IS 'Workers give back all leases and take none for a minute from then, as long as the session that froze the outbox holds its advisory lock; it keeps setting this.';
COMMENT ON COLUMN {schema}.outbox_settings.frozen_by IS 'Owner of the leases of whoever froze the outbox. They are free when its session is gone.';
COMMENT ON COLUMN {schema}.outbox_settings.resized_delivery IS 'The last delivery before the number of partitions changed: what was published up to it may belong to another partition by now.';
COMMENT ON COLUMN {schema}.outbox_settings.usable_from IS 'Programs that know the migrations up to this one, and not the later ones, work with these tables, too.';
COMMENT ON COLUMN {schema}.outbox_settings.events_in_parts IS 'events is a partitioned table: ids and versions are unique in each part, and in all of them by the append functions.';
COMMENT ON COLUMN {schema}.outbox_settings.events_from IS 'Events with lower sequences were dropped, with their parts, by postrider events prune.';
COMMENT ON COLUMN {schema}.outbox_settings.control_prefix IS 'What the subjects of control messages begin with; set by postrider migrate up before the first worker starts.';
COMMENT ON COLUMN {schema}.outbox_settings.stream_name IS 'JetStream stream of the events, NULL: what workers are told, EVENTS unless they are; set by postrider migrate up.';
COMMENT ON COLUMN {schema}.outbox_settings.subject_template IS 'Template of the events'' subjects, NULL: what workers are told, events.{topic}.{type} unless they are; set by postrider migrate up.';
COMMENT ON COLUMN {schema}.outbox_settings.events_relation IS 'Table or view that every worker and command reads events from, as name (in this schema) or schema.name; set by postrider migrate up.';

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
COMMENT ON COLUMN {schema}.events.stream_version IS 'The next one of its stream, also where the ones before were dropped (outbox_stream_heads).';
COMMENT ON COLUMN {schema}.events.audit_only IS 'Never published: the event has no pointer row.';

-- The last version of a stream all of whose events were dropped.
CREATE TABLE {schema}.outbox_stream_heads (
    stream_version bigint NOT NULL,
    stream_id      text   NOT NULL,
    CONSTRAINT outbox_stream_heads_pkey PRIMARY KEY (stream_id)
);

-- One pointer row per event that is not yet published; publishing deletes it.
-- Rows to publish now are apart from rows that cannot be (failed and waiting,
-- dead, scheduled for later, blocked behind an earlier row of their stream), so
-- that the hot path never wades through these.
--
-- The time of a retry overwrites available_at, so the time for which an event was
-- scheduled has a column of its own: latency counts from it, and without it no clock
-- puts the row off.
--
-- A replayed row was published before, so first deliveries do not wait for it:
-- they keep the order of their partition.
CREATE TABLE {schema}.outbox (
    global_sequence bigint      NOT NULL,
    available_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    scheduled_for   timestamptz,
    dead_at         timestamptz,
    replay_id       bigint,
    generation      int         NOT NULL DEFAULT 0,
    attempts        int         NOT NULL DEFAULT 0,
    partition_key   smallint    NOT NULL,
    parked          boolean     NOT NULL DEFAULT false,
    blocked         boolean     NOT NULL DEFAULT false,
    stream_id       text        NOT NULL,
    topic           text        NOT NULL DEFAULT 'default',
    last_error      text,
    failures        jsonb
) PARTITION BY LIST (parked);
COMMENT ON COLUMN {schema}.outbox.parked IS 'false: publish now. true: waits for a retry, a time, an earlier row of its stream, or a person.';
COMMENT ON COLUMN {schema}.outbox.generation IS 'Raised by requeue and replay; above 0 it is part of the message id.';
COMMENT ON COLUMN {schema}.outbox.scheduled_for IS 'The time before which its producer, or an operator, does not want it published; NULL: none was given.';
COMMENT ON COLUMN {schema}.outbox.replay_id IS 'The replay that put the row here; NULL for an event that was never published.';
COMMENT ON COLUMN {schema}.outbox.failures IS 'The last ten attempts that failed, the oldest first: [{"at", "worker_id", "class", "text"}]; NULL: none did.';

-- Every row of outbox_ready is deleted soon after it was inserted. Vacuum must
-- follow the number of dead rows, not the size of the table, and must not
-- truncate and regrow a heap that empties many times a second.
--
-- Its key is without parked: that column only says which part of the outbox a row
-- is in, and would make every entry of the index 8 bytes longer, which each insert
-- writes to the log as well.
CREATE TABLE {schema}.outbox_ready PARTITION OF {schema}.outbox (
    CONSTRAINT outbox_ready_pkey PRIMARY KEY (partition_key, global_sequence)
) FOR VALUES IN (false) WITH (
    vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 20000,
    autovacuum_vacuum_cost_delay = 1
);

-- The order of the indexes counts. PostgreSQL takes a table that a vacuum found empty
-- for empty, all its indexes for equally cheap, and of those the one that was made
-- last. For the parked rows of a stream that must be outbox_parked_stream_idx, and
-- not the key.
CREATE TABLE {schema}.outbox_parked PARTITION OF {schema}.outbox (
    CONSTRAINT outbox_parked_pkey PRIMARY KEY (partition_key, global_sequence, parked)
) FOR VALUES IN (true) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000
);
CREATE INDEX outbox_parked_stream_idx ON {schema}.outbox_parked (partition_key, stream_id, global_sequence);
CREATE INDEX outbox_parked_due_idx ON {schema}.outbox_parked (partition_key, available_at)
    WHERE NOT blocked AND dead_at IS NULL;
-- What a clock that stepped back put off, among all that was scheduled (delivery/pgstore/sql/claim.sql).
CREATE INDEX outbox_parked_early_idx ON {schema}.outbox_parked (partition_key, (attempts > 0), available_at)
    WHERE NOT blocked AND dead_at IS NULL AND (attempts > 0 OR scheduled_for IS NULL);
-- The few rows that failed or died, among millions that wait behind them.
CREATE INDEX outbox_parked_trouble_idx ON {schema}.outbox_parked (partition_key, global_sequence)
    WHERE dead_at IS NOT NULL OR NOT blocked AND attempts > 0;
-- What first deliveries may have to wait for, without replayed rows, of which one
-- stream can have thousands.
CREATE INDEX outbox_parked_first_idx ON {schema}.outbox_parked (partition_key, stream_id, global_sequence) WHERE replay_id IS NULL;
CREATE INDEX outbox_parked_replay_idx ON {schema}.outbox_parked (replay_id) WHERE replay_id IS NOT NULL;

-- What is queued is published as soon as it is visible (ADR 7). A commit that is visible and not on disk yet could vanish in a
-- crash, and its sequence be used for another event. So a transaction that queues anything commits synchronously,
-- whatever its session says. Deferred, this is done last: nothing behind it can take it back.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_durable() RETURNS trigger
LANGUAGE plpgsql AS $function$
BEGIN
    IF pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off' THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'local', true);
    END IF;
    RETURN NULL;
END
$function$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER outbox_durable AFTER INSERT ON {schema}.outbox_ready
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.outbox_durable();
CREATE CONSTRAINT TRIGGER outbox_durable AFTER INSERT ON {schema}.outbox_parked
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.outbox_durable();
ALTER TABLE {schema}.outbox_ready ENABLE ALWAYS TRIGGER outbox_durable;
ALTER TABLE {schema}.outbox_parked ENABLE ALWAYS TRIGGER outbox_durable;
REVOKE EXECUTE ON FUNCTION {schema}.outbox_durable() FROM PUBLIC;

-- global_sequence is NULL only inside the transaction that takes the key.
CREATE TABLE {schema}.outbox_dedupe_keys (
    global_sequence bigint,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    topic           text        NOT NULL,
    dedupe_key      text        NOT NULL,
    CONSTRAINT outbox_dedupe_keys_pkey PRIMARY KEY (topic, dedupe_key)
) WITH (fillfactor = 90);
CREATE INDEX outbox_dedupe_keys_created_idx ON {schema}.outbox_dedupe_keys USING brin (created_at);

-- What producers and consumers agree on. Every append looks its type up here.
CREATE TABLE {schema}.outbox_types (
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    checked     boolean     NOT NULL DEFAULT false,
    event_type  text        NOT NULL CHECK (octet_length(event_type) BETWEEN 1 AND 1024),
    description text,
    json_schema jsonb       NOT NULL,
    CONSTRAINT outbox_types_pkey PRIMARY KEY (event_type)
);
COMMENT ON COLUMN {schema}.outbox_types.checked IS 'The append functions refuse payloads of the type that do not fit json_schema.';

-- The published history, one row per batch.
CREATE TABLE {schema}.outbox_deliveries (
    id                    bigint      GENERATED ALWAYS AS IDENTITY,
    lease_epoch           bigint      NOT NULL,
    first_sequence        bigint      NOT NULL,
    last_sequence         bigint      NOT NULL,
    first_stream_sequence bigint,
    last_stream_sequence  bigint,
    lost_after            bigint,
    published_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    message_count         int         NOT NULL,
    partition_key         smallint    NOT NULL,
    sequences             bigint[],
    stream_sequences      bigint[],
    skipped               bigint[],
    discarded             bigint[],
    attempts              jsonb,
    generations           jsonb,
    scheduled             jsonb,
    CONSTRAINT outbox_deliveries_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_deliveries_range_check CHECK (first_sequence <= last_sequence)
);
CREATE INDEX outbox_deliveries_published_idx ON {schema}.outbox_deliveries (published_at);
CREATE INDEX outbox_deliveries_sequence_idx ON {schema}.outbox_deliveries (partition_key, first_sequence);
CREATE INDEX outbox_deliveries_generations_idx ON {schema}.outbox_deliveries (id) WHERE generations IS NOT NULL;
COMMENT ON COLUMN {schema}.outbox_deliveries.lost_after IS 'The stream lost what it had acknowledged above this sequence; those events were queued again.';
COMMENT ON COLUMN {schema}.outbox_deliveries.message_count IS 'Messages published; skipped rows are not counted.';
COMMENT ON COLUMN {schema}.outbox_deliveries.sequences IS 'Ascending; NULL when first_sequence..last_sequence has no holes.';
COMMENT ON COLUMN {schema}.outbox_deliveries.stream_sequences IS 'One entry per sequence, in their order, NULL for a skipped one; NULL as a whole when first_stream_sequence..last_stream_sequence are consecutive and nothing was skipped.';
COMMENT ON COLUMN {schema}.outbox_deliveries.skipped IS 'The sequences of the batch that were settled without a message.';
COMMENT ON COLUMN {schema}.outbox_deliveries.discarded IS 'Those of skipped that an operator discarded.';
COMMENT ON COLUMN {schema}.outbox_deliveries.attempts IS '{"sequence": n} for rows that had failed before.';
COMMENT ON COLUMN {schema}.outbox_deliveries.generations IS '{"sequence": n} for rows of a generation above 0; an earlier delivery of such a sequence is superseded.';
COMMENT ON COLUMN {schema}.outbox_deliveries.scheduled IS '{"sequence": time} for rows that were scheduled.';

-- Long values are compressed with lz4 where the server has it. The history holds
-- the sequences of each batch, and to compress them with pglz was a third of what a
-- mark cost.
-- +goose StatementBegin
DO $do$
BEGIN
    ALTER TABLE {schema}.outbox_deliveries
        ALTER COLUMN sequences        SET COMPRESSION lz4,
        ALTER COLUMN stream_sequences SET COMPRESSION lz4;
    ALTER TABLE {schema}.events
        ALTER COLUMN payload  SET COMPRESSION lz4,
        ALTER COLUMN metadata SET COMPRESSION lz4;
EXCEPTION
    WHEN feature_not_supported THEN -- built without lz4
        RAISE NOTICE 'the server has no lz4: long values stay compressed with pglz, which costs more';
END
$do$;
-- +goose StatementEnd

-- Lease, fence and progress of a partition in one row: every write under a lease
-- is a compare-and-set on it. Updates must stay HOT, hence the room and no index.
CREATE TABLE {schema}.outbox_partitions (
    lease_epoch     bigint      NOT NULL DEFAULT 0,
    delivered       bigint      NOT NULL DEFAULT 0,
    fence_sequence  bigint      NOT NULL DEFAULT 0,
    stream_sequence bigint      NOT NULL DEFAULT 0,
    lost_sequence   bigint      NOT NULL DEFAULT 0,
    revision        bigint      NOT NULL DEFAULT 0,
    taken_on        timestamptz,
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_until     timestamptz,
    lease_ttl       interval,
    paused_at       timestamptz,
    lease_owner     uuid,
    released_by     uuid,
    crashes         int         NOT NULL DEFAULT 0,
    stream_life     text        NOT NULL DEFAULT '',
    partition_key   smallint    NOT NULL,
    carrying        boolean     NOT NULL DEFAULT false,
    CONSTRAINT outbox_partitions_pkey PRIMARY KEY (partition_key),
    CONSTRAINT outbox_partitions_key_check CHECK (partition_key >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);
INSERT INTO {schema}.outbox_partitions (partition_key)
SELECT p FROM generate_series(0, {partitions} - 1) AS p;
COMMENT ON COLUMN {schema}.outbox_partitions.lease_ttl IS 'How long the lease was made to last: one that ends later than that from now tells that the clock has stepped back.';
COMMENT ON COLUMN {schema}.outbox_partitions.lost_sequence IS 'Up to where a stream that lost it had held the partition, where that was only reported.';
COMMENT ON COLUMN {schema}.outbox_partitions.stream_life IS 'The life of the partition''s records of which the positions are: another one tells that the stream has lost some.';
COMMENT ON COLUMN {schema}.outbox_partitions.revision IS 'A random number that a takeover sets, and one more with each mark: another one tells the owner that the row is not as it was left.';
COMMENT ON COLUMN {schema}.outbox_partitions.taken_on IS 'When the server was started on which the partition was taken.';
COMMENT ON COLUMN {schema}.outbox_partitions.crashes IS 'Owners in a row that ended before they settled anything: the first, and those behind it that ended while they carried messages.';
COMMENT ON COLUMN {schema}.outbox_partitions.carrying IS 'An owner carries messages of which nothing is settled; told where one has crashed before.';
-- Told to the next owner.
COMMENT ON COLUMN {schema}.outbox_partitions.released_by IS 'Who gave the lease back; NULL while it is held, and where nobody did.';

-- The stream keeps the record of a partition that was removed, and the history what
-- was published there. So its epoch must not begin anew when the partition comes
-- back, and what the stream loses of it must still be noticed.
CREATE TABLE {schema}.outbox_former_partitions (
    lease_epoch     bigint      NOT NULL,
    fence_sequence  bigint      NOT NULL,
    stream_sequence bigint      NOT NULL,
    removed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    partition_key   smallint    NOT NULL,
    CONSTRAINT outbox_former_partitions_pkey PRIMARY KEY (partition_key)
);
COMMENT ON TABLE {schema}.outbox_former_partitions IS 'Rows of outbox_partitions that a resize or sync --prune removed; a partition that comes back goes on from here.';

-- Every position up to safe_sequence is decided: its row is visible or will never
-- be. While there is a gap above it, candidate is the next position and holders
-- are the transactions, by virtual id, that may still fill the gap.
CREATE TABLE {schema}.outbox_watermark (
    safe_sequence bigint      NOT NULL DEFAULT 0,
    candidate     bigint,
    candidate_at  timestamptz,
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    id            boolean     NOT NULL DEFAULT true CHECK (id),
    holders       text[],
    CONSTRAINT outbox_watermark_pkey PRIMARY KEY (id)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);
INSERT INTO {schema}.outbox_watermark DEFAULT VALUES;

-- What keeps a worker from delivering is here for everybody who cannot ask it, and
-- what its messages look like for commands that must make the same. A worker that is
-- asked to drain answers itself: it turns draining and gives its partitions back.
CREATE TABLE {schema}.outbox_workers (
    started_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_until    timestamptz NOT NULL,
    heartbeat_ttl      interval,
    drain_requested_at timestamptz,
    condition_since    timestamptz,
    worker_id          uuid        NOT NULL,
    pid                int,
    state              text        NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'draining')),
    hostname           text,
    version            text,
    shape              text,
    condition          text,
    condition_detail   text,
    canary             text,
    CONSTRAINT outbox_workers_pkey PRIMARY KEY (worker_id)
) WITH (fillfactor = 50, vacuum_truncate = off);
COMMENT ON COLUMN {schema}.outbox_workers.drain_requested_at IS 'When an operator asked the worker to give its partitions back and to take none until it is started again.';
COMMENT ON COLUMN {schema}.outbox_workers.shape IS 'The settings that change messages, as the worker''s flags; NULL: it does not say.';
COMMENT ON COLUMN {schema}.outbox_workers.condition IS 'Why the worker cannot deliver, in one word; NULL: nothing keeps it.';
COMMENT ON COLUMN {schema}.outbox_workers.condition_detail IS 'The error behind it.';
COMMENT ON COLUMN {schema}.outbox_workers.canary IS 'What is wrong with the canary that the worker sent last; NULL: nothing, or it sends none.';

CREATE TABLE {schema}.outbox_throughput (
    minute        timestamptz NOT NULL,
    published     bigint      NOT NULL DEFAULT 0,
    failed        bigint      NOT NULL DEFAULT 0,
    retried       bigint      NOT NULL DEFAULT 0,
    skipped       bigint      NOT NULL DEFAULT 0,
    partition_key smallint    NOT NULL,
    CONSTRAINT outbox_throughput_pkey PRIMARY KEY (minute, partition_key)
) WITH (fillfactor = 50);

-- +goose Down
DROP TABLE {schema}.outbox_throughput;
DROP TABLE {schema}.outbox_workers;
DROP TABLE {schema}.outbox_watermark;
DROP TABLE {schema}.outbox_former_partitions;
DROP TABLE {schema}.outbox_partitions;
DROP TABLE {schema}.outbox_deliveries;
DROP TABLE {schema}.outbox_types;
DROP TABLE {schema}.outbox_dedupe_keys;
DROP TABLE {schema}.outbox;
DROP FUNCTION {schema}.outbox_durable();
DROP TABLE {schema}.outbox_stream_heads;
DROP TABLE {schema}.events;
DROP TABLE {schema}.outbox_settings;
