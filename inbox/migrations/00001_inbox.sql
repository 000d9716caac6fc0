-- What each consumer knows of each stream. The row is the lock of the stream: whoever deals with a message of it holds it.
CREATE TABLE {schema}.inbox_streams (
    stream_key bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer   text        NOT NULL,
    stream     text        NOT NULL,
    version    bigint      NOT NULL DEFAULT 0, -- the last one that was dealt with
    event_id   uuid,
    generation integer     NOT NULL DEFAULT 0,
    partition  integer     NOT NULL DEFAULT -1,
    sequence   bigint      NOT NULL DEFAULT 0,
    epoch      bigint      NOT NULL DEFAULT 0,
    blocked    boolean     NOT NULL DEFAULT false, -- messages of it are parked
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT inbox_streams_stream_key UNIQUE (consumer, stream)
) WITH (fillfactor = 80);

-- What was dealt with, and what the handler returned. A stream has each version once, so that another event under a known
-- version is told from a repeat.
CREATE TABLE {schema}.inbox_records (
    stream_key  bigint      NOT NULL,
    version     bigint      NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    event_id    uuid        NOT NULL,
    generation  integer     NOT NULL,
    skipped     boolean     NOT NULL DEFAULT false,
    note        text,
    result      bytea,
    CONSTRAINT inbox_records_pkey PRIMARY KEY (stream_key, version)
);
-- Rows come in the order of their times: a block range index costs nearly nothing and serves the retention.
CREATE INDEX inbox_records_recorded_at_idx ON {schema}.inbox_records USING brin (recorded_at) WITH (pages_per_range = 16);

-- Messages that failed, and those that wait behind them. A head that may be tried has due_at; a dead one has none.
CREATE TABLE {schema}.inbox_parked (
    parked_id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream_key      bigint      NOT NULL,
    version         bigint      NOT NULL,
    due_at          timestamptz,
    parked_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    stream_sequence bigint      NOT NULL,
    event_id        uuid        NOT NULL,
    attempts        integer     NOT NULL DEFAULT 0,
    begun           integer     NOT NULL DEFAULT 0, -- times that the handler began and nobody came back from it
    begun_by        uuid,
    state           text        NOT NULL CHECK (state IN ('waiting', 'failed', 'dead')),
    consumer        text        NOT NULL,
    reason          text,
    subject         text        NOT NULL,
    envelope        bytea       NOT NULL,
    payload         bytea       NOT NULL,
    CONSTRAINT inbox_parked_event_key UNIQUE (stream_key, version, event_id)
);
CREATE INDEX inbox_parked_due_idx ON {schema}.inbox_parked (consumer, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX inbox_parked_state_idx ON {schema}.inbox_parked (consumer, state, parked_id);

-- The last call of each sender and its result.
CREATE TABLE {schema}.inbox_senders (
    consumer   text        NOT NULL,
    sender     text        NOT NULL,
    generation integer     NOT NULL DEFAULT 0,
    call_id    bigint      NOT NULL DEFAULT 0,
    failed     boolean     NOT NULL DEFAULT false,
    reason     text,
    result     bytea,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT inbox_senders_pkey PRIMARY KEY (consumer, sender)
) WITH (fillfactor = 80);

-- The other side, package caller: the calls of a sender that have no answer, and its last one that was sent.
CREATE TABLE {schema}.inbox_calls (
    sender     text        NOT NULL,
    queued     bigint      GENERATED ALWAYS AS IDENTITY,
    queued_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts   integer     NOT NULL DEFAULT 0,
    last_error text,
    request    bytea       NOT NULL,
    CONSTRAINT inbox_calls_pkey PRIMARY KEY (sender, queued)
);
CREATE TABLE {schema}.inbox_callers (
    sender     text        NOT NULL PRIMARY KEY,
    generation integer     NOT NULL DEFAULT 0,
    call_id    bigint      NOT NULL DEFAULT 0,
    queued     bigint      NOT NULL DEFAULT 0 -- which call has that id
) WITH (fillfactor = 80);

-- Consumers that read JetStream: into how many lanes, from which stream.
CREATE TABLE {schema}.inbox_consumers (
    consumer       text        NOT NULL PRIMARY KEY,
    lanes          integer     NOT NULL CHECK (lanes BETWEEN 1 AND 1024),
    stream         text        NOT NULL,
    stream_created timestamptz NOT NULL
);

-- Who reads a lane, and how far. Every transaction of a reader begins with a compare-and-set on (owner, epoch).
CREATE TABLE {schema}.inbox_lanes (
    consumer    text        NOT NULL,
    lane        integer     NOT NULL,
    epoch       bigint      NOT NULL DEFAULT 0,
    position    bigint      NOT NULL DEFAULT 0, -- JetStream sequence up to which everything is dealt with
    position_time bigint    NOT NULL DEFAULT 0, -- when JetStream stored that message, in nanoseconds; 0 where unknown
    owner       uuid,
    lease_until timestamptz,
    crashes     integer     NOT NULL DEFAULT 0, -- readers that were lost since a message was dealt with
    tried       bigint      NOT NULL DEFAULT 0, -- JetStream sequence of the message that was begun with a mark, how often,
    tries       integer     NOT NULL DEFAULT 0,
    tried_epoch bigint      NOT NULL DEFAULT 0, -- and under which epoch the last time
    CONSTRAINT inbox_lanes_pkey PRIMARY KEY (consumer, lane)
) WITH (fillfactor = 20);

CREATE TABLE {schema}.inbox_readers (
    consumer    text        NOT NULL,
    reader      uuid        NOT NULL,
    hostname    text        NOT NULL,
    pid         integer     NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    alive_until timestamptz NOT NULL,
    CONSTRAINT inbox_readers_pkey PRIMARY KEY (consumer, reader)
) WITH (fillfactor = 50);

-- Messages that Postrider cannot have published.
CREATE TABLE {schema}.inbox_malformed (
    consumer        text        NOT NULL,
    stream_sequence bigint      NOT NULL,
    received_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    subject         text        NOT NULL,
    reason          text        NOT NULL,
    envelope        bytea       NOT NULL,
    payload         bytea       NOT NULL,
    CONSTRAINT inbox_malformed_pkey PRIMARY KEY (consumer, stream_sequence)
);
