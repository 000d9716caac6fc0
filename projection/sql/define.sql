-- One row per stream: its watermark, its place in the schedule and who owns it now.
CREATE TABLE IF NOT EXISTS {schema}.projection_streams (
    applied_version  bigint NOT NULL DEFAULT 0 CHECK (applied_version >= 0),
    expected_version bigint NOT NULL DEFAULT 1 CHECK (expected_version >= 1),
    wanted_version   bigint NOT NULL DEFAULT 0,
    lease_epoch      bigint NOT NULL DEFAULT 0,
    due_at           timestamptz,
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
CREATE INDEX IF NOT EXISTS projection_streams_due_idx ON {schema}.projection_streams (due_at, stream_id) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS projection_streams_dead_idx ON {schema}.projection_streams (dead_at, stream_id) WHERE dead_at IS NOT NULL;
