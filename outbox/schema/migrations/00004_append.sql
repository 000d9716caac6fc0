-- Appending one event. Two public functions, one for JSON and one for bytes (an
-- overload would make the type of a quoted literal ambiguous), on a private one
-- that outbox_append_batch uses too, for a batch of one event.
--
-- The public functions run with their owner's rights and a fixed search_path; the
-- caller needs EXECUTE on them and USAGE on the schema, nothing on the tables.
-- Generic plans: the planner would otherwise plan the pointer row's INSERT anew
-- for every call, which doubles the time.
--
-- SQLSTATEs: OB001 expected_version differs from the stream's version (DETAIL is a
-- JSON object: stream, expected, actual); 22023 an argument is refused, named in
-- the text; 23505 the event_id exists, or another writer took the version while
-- not running READ COMMITTED; 54000 the payload is larger than
-- outbox_settings.max_payload_bytes.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_append_event(
    new_stream text, new_type text, new_payload bytea, expected bigint, new_metadata jsonb, new_topic text,
    new_key text, new_hash bigint, new_dedupe text, new_tenant text, new_publish boolean, not_before timestamptz,
    new_id uuid, new_occurred timestamptz,
    OUT appended bigint, OUT id uuid, OUT version bigint, OUT placed smallint, OUT duplicate boolean, OUT enqueued boolean)
LANGUAGE plpgsql AS $function$
DECLARE
    problem  text := {schema}.outbox_event_problem(new_stream, new_type, new_topic, new_key, new_dedupe, new_tenant,
                                                   expected, octet_length(new_payload), new_metadata);
    current  bigint;
    largest  bigint;
BEGIN
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = '22023';
    END IF;
    WHILE new_dedupe IS NOT NULL LOOP
        -- Waits for another transaction that is taking the same key.
        INSERT INTO {schema}.outbox_dedupe_keys (topic, dedupe_key) VALUES (new_topic, new_dedupe) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT d.global_sequence, e.event_id, e.stream_version, true, false INTO appended, id, version, duplicate, enqueued
          FROM {schema}.outbox_dedupe_keys AS d LEFT JOIN {schema}.events AS e ON e.sequence = d.global_sequence
         WHERE d.topic = new_topic AND d.dedupe_key = new_dedupe;
        IF FOUND THEN -- else retention removed it just now
            RETURN;
        END IF;
    END LOOP;
    -- Writers to one stream queue here. The version is read in a later statement, so
    -- that whoever waited sees what it waited for, and the next sequence is drawn
    -- after the previous version became visible.
    IF pg_advisory_xact_lock(hashtextextended(new_stream, '{schema}.events'::regclass::oid::bigint)) IS NULL THEN
        NULL;
    END IF;
    SELECT (SELECT max(e.stream_version) FROM {schema}.events AS e WHERE e.stream_id = new_stream), s.max_payload_bytes
      INTO current, largest FROM {schema}.outbox_settings AS s;
    current := coalesce(current, 0);
    IF octet_length(new_payload) > largest THEN
        RAISE EXCEPTION 'payload is % bytes, the limit is %', octet_length(new_payload), largest USING ERRCODE = '54000';
    END IF;
    IF expected <> current THEN
        PERFORM {schema}.outbox_version_conflict(new_stream, expected, current);
    END IF;
    -- The identity is drawn here and nowhere else: the watermark rests on it.
    INSERT INTO {schema}.events (event_id, stream_id, stream_version, event_type, topic, payload, metadata,
                                 tenant_id, routing_key, audit_only, occurred_at)
    VALUES (coalesce(new_id, gen_random_uuid()), new_stream, current + 1, new_type, new_topic, new_payload, new_metadata,
            new_tenant, nullif(new_key, new_stream), NOT new_publish, coalesce(new_occurred, clock_timestamp()))
    RETURNING sequence, event_id, stream_version, false, NOT audit_only INTO appended, id, version, duplicate, enqueued;
    IF new_publish THEN -- the partition comes from the count that the inserting statement sees
        new_hash := coalesce(new_hash, {schema}.outbox_xxhash64(convert_to(coalesce(new_key, new_stream), 'UTF8')));
        IF not_before > clock_timestamp() THEN
            INSERT INTO {schema}.outbox_parked (global_sequence, partition_key, parked, available_at, stream_id, topic)
            SELECT appended, {schema}.outbox_hash_partition(new_hash, s.partition_count), true, not_before, new_stream, new_topic
              FROM {schema}.outbox_settings AS s
            RETURNING partition_key INTO placed;
        ELSE
            INSERT INTO {schema}.outbox_ready (global_sequence, partition_key, stream_id, topic)
            SELECT appended, {schema}.outbox_hash_partition(new_hash, s.partition_count), new_stream, new_topic
              FROM {schema}.outbox_settings AS s
            RETURNING partition_key INTO placed;
        END IF;
    END IF;
    IF new_dedupe IS NOT NULL THEN
        UPDATE {schema}.outbox_dedupe_keys AS d SET global_sequence = appended
         WHERE d.topic = new_topic AND d.dedupe_key = new_dedupe;
    END IF;
END
$function$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_version_conflict(stream text, expected bigint, actual bigint) RETURNS void
LANGUAGE plpgsql AS $function$
BEGIN
    RAISE EXCEPTION 'stream % is at version %, expected %', quote_literal(stream), actual, expected
        USING ERRCODE = 'OB001',
              DETAIL  = jsonb_build_object('stream', stream, 'expected', expected, 'actual', actual)::text,
              HINT    = 'Read the stream again and decide anew.';
END
$function$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_append_bytes(
    stream_id text, event_type text, payload bytea, expected_version bigint DEFAULT NULL, metadata jsonb DEFAULT NULL,
    topic text DEFAULT 'default', partition_key text DEFAULT NULL, dedupe_key text DEFAULT NULL,
    tenant_id text DEFAULT NULL, publish boolean DEFAULT true, available_at timestamptz DEFAULT NULL,
    event_id uuid DEFAULT NULL, occurred_at timestamptz DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {schema}, pg_temp
SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    one record;
BEGIN
    one := {schema}.outbox_append_event(stream_id, event_type, payload, expected_version, metadata,
        coalesce(topic, 'default'), partition_key, NULL, dedupe_key, tenant_id, coalesce(publish, true),
        available_at, event_id, occurred_at);
    RETURN one.appended;
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_append_bytes IS 'As outbox_append, with any bytes as payload.';

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_append(
    stream_id text, event_type text, payload jsonb, expected_version bigint DEFAULT NULL, metadata jsonb DEFAULT NULL,
    topic text DEFAULT 'default', partition_key text DEFAULT NULL, dedupe_key text DEFAULT NULL,
    tenant_id text DEFAULT NULL, publish boolean DEFAULT true, available_at timestamptz DEFAULT NULL,
    event_id uuid DEFAULT NULL, occurred_at timestamptz DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {schema}, pg_temp
SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    one record;
BEGIN
    one := {schema}.outbox_append_event(stream_id, event_type, convert_to(payload::text, 'UTF8'), expected_version, metadata,
        coalesce(topic, 'default'), partition_key, NULL, dedupe_key, tenant_id, coalesce(publish, true),
        available_at, event_id, occurred_at);
    RETURN one.appended;
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_append IS
'Appends one event to its stream, queues it for publication, and returns its sequence.
expected_version: the version the stream must have now, 0 for a new stream; NULL accepts any and queues behind other writers of the stream.
topic, partition_key (default stream_id): where it is published, and what decides its partition.
dedupe_key: unique per topic; when it is taken, nothing is written and the first event''s sequence is returned.
publish => false: recorded, never published. available_at: not published before that time.';

REVOKE EXECUTE ON FUNCTION {schema}.outbox_append_event, {schema}.outbox_version_conflict,
                           {schema}.outbox_append_bytes, {schema}.outbox_append FROM PUBLIC;

-- +goose Down
DROP FUNCTION {schema}.outbox_append(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz);
DROP FUNCTION {schema}.outbox_append_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz);
DROP FUNCTION {schema}.outbox_version_conflict(text, bigint, bigint);
DROP FUNCTION {schema}.outbox_append_event(text, text, bytea, bigint, jsonb, text, text, bigint, text, text, boolean, timestamptz, uuid, timestamptz);
