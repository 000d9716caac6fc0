-- What operators do, and what they look up: the audit, replays, and who had which partition.

-- +goose Up
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
-- What operators did to one message.
CREATE INDEX outbox_audit_sequences_idx ON {schema}.outbox_audit USING gin ((target -> 'sequences') jsonb_path_ops);

-- One row for what one statement did to the leases that it found alike, not one for
-- each partition: to move 10,000 partitions costs a row for each worker that gives and
-- for each that takes. It tells who had a partition also when nobody of them lives any
-- more. The newest 20,000 rows stay. To look for a partition reads them all, some
-- milliseconds.
CREATE TABLE {schema}.outbox_ownership (
    id                bigint      GENERATED ALWAYS AS IDENTITY,
    changed_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_until       timestamptz,
    worker_id         uuid,
    previous_id       uuid,
    kind              text        NOT NULL,
    hostname          text,
    previous_hostname text,
    partition_keys    smallint[]  NOT NULL,
    lease_epochs      bigint[]    NOT NULL,
    CONSTRAINT outbox_ownership_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE {schema}.outbox_ownership IS 'Changes of ownership, written by the statements that change outbox_partitions.';
COMMENT ON COLUMN {schema}.outbox_ownership.lease_until IS 'When the lease of previous_id ran out, where it was silent and others took over; the latest of them.';
COMMENT ON COLUMN {schema}.outbox_ownership.worker_id IS 'Who has the partitions from then on; NULL: nobody.';
COMMENT ON COLUMN {schema}.outbox_ownership.previous_id IS 'Who had them last; NULL: not known.';
COMMENT ON COLUMN {schema}.outbox_ownership.lease_epochs IS 'One entry per partition, in their order: under which they are had from then on, or were had where worker_id is NULL.';

-- One row per replay. What a step does and how far the replay is stand in one
-- transaction, so that one that was killed goes on where it was. What it has to
-- select is its own: whoever goes on counting it refuses another number.
CREATE TABLE {schema}.outbox_replays (
    id              bigint      GENERATED ALWAYS AS IDENTITY,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at     timestamptz,
    position        bigint      NOT NULL DEFAULT 0,
    last_sequence   bigint      NOT NULL,
    expected        bigint,
    selected        bigint,
    replayed        bigint      NOT NULL DEFAULT 0,
    gone            bigint      NOT NULL DEFAULT 0,
    failed          bigint      NOT NULL DEFAULT 0,
    stream_sequence bigint      NOT NULL DEFAULT 0,
    generation      int         NOT NULL,
    runner          uuid,
    kind            text        NOT NULL CHECK (kind IN ('range', 'rebuild-current', 'retry')),
    destination     text        NOT NULL CHECK (destination IN ('live', 'shadow')),
    state           text        NOT NULL CHECK (state IN ('planned', 'running', 'paused', 'done', 'cancelled')),
    actor           text        NOT NULL,
    selection       jsonb       NOT NULL,
    reason          text,
    prefix          text,
    stream          text,
    waiting_for     text,
    last_error      text,
    CONSTRAINT outbox_replays_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);
-- Two at once could give one event generations that do not ascend.
CREATE UNIQUE INDEX outbox_replays_live_idx ON {schema}.outbox_replays (destination) WHERE destination = 'live' AND state = 'running';
COMMENT ON COLUMN {schema}.outbox_replays.position        IS 'Everything selected up to this sequence has been dealt with.';
COMMENT ON COLUMN {schema}.outbox_replays.last_sequence   IS 'Later events are none of its business.';
COMMENT ON COLUMN {schema}.outbox_replays.expected        IS 'How many events must be selected; NULL: any number. One that selects another number is cancelled before it begins.';
COMMENT ON COLUMN {schema}.outbox_replays.selected        IS 'How many events it was for; NULL until they are counted.';
COMMENT ON COLUMN {schema}.outbox_replays.stream_sequence IS 'Shadow: where the last message lies whose acknowledgement was noted.';
COMMENT ON COLUMN {schema}.outbox_replays.generation      IS 'A multiple of 100 above every generation that was in use.';
COMMENT ON COLUMN {schema}.outbox_replays.runner          IS 'The one process that may work on it; whoever resumes it puts its own id here.';

CREATE TABLE {schema}.outbox_replay_sequences (
    replay_id bigint NOT NULL,
    sequence  bigint NOT NULL,
    CONSTRAINT outbox_replay_sequences_pkey PRIMARY KEY (replay_id, sequence),
    CONSTRAINT outbox_replay_sequences_replay_fkey FOREIGN KEY (replay_id) REFERENCES {schema}.outbox_replays (id) ON DELETE CASCADE
);
COMMENT ON TABLE {schema}.outbox_replay_sequences IS 'For retry the chosen rows; otherwise those left out, since they waited in the outbox when the replay was made.';

-- +goose Down
DROP TABLE {schema}.outbox_replay_sequences;
DROP TABLE {schema}.outbox_replays;
DROP TABLE {schema}.outbox_ownership;
DROP TABLE {schema}.outbox_audit;
