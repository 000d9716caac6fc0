-- Replays, and transactions that append without queueing anything.
--
-- Roles, beyond 00007:
--
--   -- who replays and repairs gaps
--   GRANT SELECT, INSERT, UPDATE ON {schema}.outbox_replays TO app_operator;
--   GRANT SELECT, INSERT, DELETE ON {schema}.outbox_replay_sequences TO app_operator;
--   GRANT INSERT ON {schema}.outbox TO app_operator;
--   GRANT SELECT (routing_key) ON {schema}.events TO app_operator;
--   -- producers that mark a transaction
--   GRANT EXECUTE ON FUNCTION {schema}.outbox_without_enqueue TO app_producer;
--   GRANT SELECT ON {schema}.outbox_replays TO app_monitor;

-- +goose Up
-- One row per replay. What a step does and how far the replay is stand in one
-- transaction, so that one that was killed goes on where it was.
CREATE TABLE {schema}.outbox_replays (
    id              bigint      GENERATED ALWAYS AS IDENTITY,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at     timestamptz,
    position        bigint      NOT NULL DEFAULT 0,
    last_sequence   bigint      NOT NULL,
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
COMMENT ON COLUMN {schema}.outbox_replays.selected        IS 'How many events it was for; NULL until they are counted.';
COMMENT ON COLUMN {schema}.outbox_replays.runner          IS 'The one process that may work on it; whoever resumes it puts its own id here.';
COMMENT ON COLUMN {schema}.outbox_replays.generation      IS 'A multiple of 100 above every generation that was in use.';
COMMENT ON COLUMN {schema}.outbox_replays.stream_sequence IS 'Shadow: where the last message lies whose acknowledgement was noted.';

CREATE TABLE {schema}.outbox_replay_sequences (
    replay_id bigint NOT NULL,
    sequence  bigint NOT NULL,
    CONSTRAINT outbox_replay_sequences_pkey PRIMARY KEY (replay_id, sequence),
    CONSTRAINT outbox_replay_sequences_replay_fkey FOREIGN KEY (replay_id) REFERENCES {schema}.outbox_replays (id) ON DELETE CASCADE
);
COMMENT ON TABLE {schema}.outbox_replay_sequences IS 'For retry the chosen rows; otherwise those left out, since they waited in the outbox when the replay was made.';

-- A replayed row was published before, so first deliveries do not wait for it:
-- they keep the order of their partition. What they may have to wait for has an
-- index without replayed rows, of which one stream can have thousands.
ALTER TABLE {schema}.outbox ADD COLUMN replay_id bigint;
COMMENT ON COLUMN {schema}.outbox.replay_id IS 'The replay that put the row here; NULL for an event that was never published.';
CREATE INDEX outbox_parked_first_idx ON {schema}.outbox_parked (partition_key, stream_id, global_sequence) WHERE replay_id IS NULL;
CREATE INDEX outbox_parked_replay_idx ON {schema}.outbox_parked (replay_id) WHERE replay_id IS NOT NULL;

-- Marks the transaction: what it appends from now on is recorded as audit-only,
-- and nothing is queued. The mark is the transaction's own id. A value that
-- anybody left in a session, which a pool hands to somebody else, is the id of no
-- running transaction and makes the next append fail instead of being silent.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_without_enqueue() RETURNS void
LANGUAGE sql VOLATILE AS $function$
    SELECT set_config('postrider.replaying', pg_current_xact_id()::text, true)
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_without_enqueue IS 'From here to the end of this transaction appended events are recorded and never published.';

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_is_replaying() RETURNS boolean
LANGUAGE plpgsql STABLE AS $function$
DECLARE
    mark text := coalesce(current_setting('postrider.replaying', true), '');
BEGIN
    IF mark = '' THEN
        RETURN false;
    ELSIF mark = pg_current_xact_id()::text THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION 'postrider.replaying was not set by this transaction'
        USING ERRCODE = '22023', HINT = 'Call outbox_without_enqueue() in the transaction, and never SET the parameter.';
END
$function$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION {schema}.outbox_without_enqueue, {schema}.outbox_is_replaying FROM PUBLIC;

-- The append functions look at the mark. Their texts are edited where they stand,
-- so that what they are is written down once; an edit that finds nothing fails.
-- +goose StatementBegin
DO $migration$
DECLARE
    edit record;
    text text;
BEGIN
    FOR edit IN
        SELECT f.name, f.before, f.after
          FROM (VALUES
                ('outbox_append_event',
                 E'    WHILE new_dedupe IS NOT NULL LOOP\n',
                 E'    new_publish := new_publish AND NOT {schema}.outbox_is_replaying();\n    WHILE new_dedupe IS NOT NULL LOOP\n'),
                ('outbox_append_batch',
                 E'    IF EXISTS (SELECT FROM unnest(dedupe_keys) AS k WHERE k IS NOT NULL) THEN\n',
                 E'    IF {schema}.outbox_is_replaying() THEN\n        published := array_fill(false, ARRAY[cardinality(stream_ids)]);\n    END IF;\n\n'
                 '    IF EXISTS (SELECT FROM unnest(dedupe_keys) AS k WHERE k IS NOT NULL) THEN\n')) AS f (name, before, after)
    LOOP
        SELECT pg_get_functiondef(p.oid) INTO STRICT text
          FROM pg_proc AS p
         WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class AS c WHERE c.oid = '{schema}.outbox_replays'::regclass)
           AND p.proname = edit.name;
        IF strpos(text, edit.before) = 0 THEN
            RAISE EXCEPTION 'function % is not the one that this migration knows', edit.name;
        END IF;
        EXECUTE replace(text, edit.before, edit.after);
    END LOOP;
END
$migration$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $migration$
DECLARE
    edit record;
    text text;
BEGIN
    FOR edit IN
        SELECT f.name, f.added
          FROM (VALUES
                ('outbox_append_event', E'    new_publish := new_publish AND NOT {schema}.outbox_is_replaying();\n'),
                ('outbox_append_batch',
                 E'    IF {schema}.outbox_is_replaying() THEN\n        published := array_fill(false, ARRAY[cardinality(stream_ids)]);\n    END IF;\n\n'))
               AS f (name, added)
    LOOP
        SELECT pg_get_functiondef(p.oid) INTO STRICT text
          FROM pg_proc AS p
         WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class AS c WHERE c.oid = '{schema}.outbox_replays'::regclass)
           AND p.proname = edit.name;
        EXECUTE replace(text, edit.added, '');
    END LOOP;
END
$migration$;
-- +goose StatementEnd
DROP FUNCTION {schema}.outbox_without_enqueue();
DROP FUNCTION {schema}.outbox_is_replaying();
DROP INDEX {schema}.outbox_parked_first_idx;
DROP INDEX {schema}.outbox_parked_replay_idx;
ALTER TABLE {schema}.outbox DROP COLUMN replay_id;
DROP TABLE {schema}.outbox_replay_sequences;
DROP TABLE {schema}.outbox_replays;
