-- Tables of the sender. They live in the database of the business, beside the outbox.

CREATE TABLE IF NOT EXISTS remote_targets (
    target text PRIMARY KEY CHECK (target ~ '^[a-z0-9_-]{1,64}$'),
    url    text NOT NULL,
    -- What this sender shows the target. A real program would keep it where it keeps its secrets.
    token  text NOT NULL
);

-- A row is a call that is not finished. Deleting one that was not sent cancels it.
CREATE TABLE IF NOT EXISTS remote_calls (
    call_id         bigint PRIMARY KEY, -- sequence of its event: ascends over all calls of the sender
    call_uuid       uuid NOT NULL UNIQUE, -- id of its event: tells two calls apart if a restored database uses an id again
    target          text NOT NULL REFERENCES remote_targets,
    procedure       text NOT NULL,
    arguments       jsonb NOT NULL,
    on_result       text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    arrived_at      timestamptz, -- when the event came: the call may be sent
    sent_at         timestamptz, -- before the first attempt: from here on the target may have executed it
    attempts        integer NOT NULL DEFAULT 0,
    attempt_at      timestamptz NOT NULL DEFAULT clock_timestamp(), -- not before
    last_error      text,
    outcome         text CHECK (outcome IN ('done', 'failed', 'outdated')), -- the target's last word, kept while the callback fails
    answer          bytea,
    callback_errors integer NOT NULL DEFAULT 0,
    callback_at     timestamptz, -- not before
    dead_at         timestamptz -- the callback was given up
);

-- The heads of all targets are read from this one.
CREATE INDEX IF NOT EXISTS remote_calls_target ON remote_calls (target, call_id) WHERE dead_at IS NULL;
