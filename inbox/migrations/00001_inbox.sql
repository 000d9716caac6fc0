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
-- Heads that nobody put off.
CREATE INDEX inbox_parked_now_idx ON {schema}.inbox_parked (consumer) WHERE due_at IS NOT NULL AND attempts = 0 AND begun = 0;
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
    queued     bigint      NOT NULL DEFAULT 0 -- which call has that id; 0: one that was answered
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
    position_time bigint    NOT NULL DEFAULT 0, -- when JetStream stored that message, in nanoseconds; negative: a bound; 0: unknown
    owner       uuid,
    lease_until timestamptz,
    lease_ttl   interval, -- how long the lease was made to last
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
    alive_ttl   interval,
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

-- What is decided and recorded of a message, for Go and for every other language (ADR 29). All run with their caller's
-- rights and a path of their own. They find rows by key, whatever the statistics say, and by plans that stay.

-- inbox_decide locks the streams of the messages, in one order, and goes through the table in the documentation of the Go
-- package inbox, row by row. A message that runs or is to be parked counts as such for those behind it in the call. With its_turn the
-- message is the first parked one of its stream. findings are the bits of Finding in Go.
CREATE FUNCTION {schema}.inbox_decide(
    for_consumer text, by_ids boolean, its_turn boolean, streams text[], versions bigint[], events uuid[], sequences bigint[],
    partitions integer[], generations integer[], epochs bigint[])
RETURNS TABLE (place bigint, key bigint, verdict text, findings integer, missing bigint, last bigint, result bytea)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET row_security = off
SET plan_cache_mode = force_generic_plan AS $function$
#variable_conflict use_column
DECLARE
    m               record;
    last_event      uuid; -- what is known of the stream, as it would be behind the messages so far
    last_generation integer;
    last_partition  integer;
    last_sequence   bigint;
    last_epoch      bigint;
    waits           boolean;
    recorded        uuid;
    ran             bigint[]; -- versions that run in this call, and their events
    ran_events      uuid[];
    ran_at          integer;
    parks           text[]; -- what is parked in this call, and its highest version
    parks_to        bigint;
BEGIN
    INSERT INTO {schema}.inbox_streams (consumer, stream)
    SELECT for_consumer, w.stream
      FROM unnest(streams) AS w (stream)
     WHERE (SELECT s.stream_key FROM {schema}.inbox_streams AS s
             WHERE s.consumer = for_consumer AND s.stream = w.stream LIMIT 1) IS NULL
     ORDER BY w.stream
        ON CONFLICT (consumer, stream) DO NOTHING;
    PERFORM FROM {schema}.inbox_streams AS s
      WHERE s.consumer = for_consumer AND s.stream = ANY (streams)
      ORDER BY s.stream
        FOR NO KEY UPDATE;
    -- A statement of its own after the locks: it sees what whoever held them before has committed.
    FOR m IN
        SELECT w.n, w.version, w.event_id, w.sequence, w.partition, w.generation, w.epoch, s.stream_key, s.version AS last_version,
               s.event_id AS last_event, s.generation AS last_generation, s.partition AS last_partition,
               s.sequence AS last_sequence, s.epoch AS last_epoch, s.blocked, r.event_id AS recorded, r.result,
               p.event_id IS NOT NULL AS parked
          FROM unnest(streams, versions, events, sequences, partitions, generations, epochs)
               WITH ORDINALITY AS w (stream, version, event_id, sequence, partition, generation, epoch, n)
         CROSS JOIN LATERAL (
               SELECT * FROM {schema}.inbox_streams AS s WHERE s.consumer = for_consumer AND s.stream = w.stream LIMIT 1) AS s
          LEFT JOIN LATERAL (
               SELECT r.event_id, r.result FROM {schema}.inbox_records AS r
                WHERE r.stream_key = s.stream_key AND r.version = w.version LIMIT 1) AS r ON true
          LEFT JOIN LATERAL (
               SELECT p.event_id FROM {schema}.inbox_parked AS p
                WHERE s.blocked AND NOT its_turn
                  AND p.stream_key = s.stream_key AND p.version = w.version AND p.event_id = w.event_id LIMIT 1) AS p ON true
         ORDER BY s.stream_key, w.n
    LOOP
        IF m.stream_key IS DISTINCT FROM key THEN
            key := m.stream_key;
            last := m.last_version;
            last_event := m.last_event;
            last_generation := m.last_generation;
            last_partition := m.last_partition;
            last_sequence := m.last_sequence;
            last_epoch := m.last_epoch;
            waits := m.blocked AND NOT its_turn;
            ran := '{}';
            ran_events := '{}';
            parks := '{}';
            parks_to := 0;
        END IF;
        place := m.n;
        missing := 0;
        result := NULL;
        findings := CASE WHEN m.version - 1 > last THEN 1 ELSE 0 END; -- a gap; this way round it cannot overflow
        IF last > 0 THEN
            findings := findings
                | CASE WHEN m.version < last OR m.generation = last_generation AND m.sequence < last_sequence THEN 2 ELSE 0 END
                | CASE WHEN m.generation < last_generation THEN 4 ELSE 0 END
                | CASE WHEN m.partition = last_partition AND m.generation = last_generation AND m.epoch > 0 AND m.epoch < last_epoch
                       THEN 8 ELSE 0 END;
        END IF;
        recorded := m.recorded;
        IF recorded IS NULL AND m.version <= last THEN
            ran_at := array_position(ran, m.version);
            recorded := ran_events[ran_at];
        END IF;
        IF recorded = m.event_id OR recorded IS NULL AND m.version = last AND m.event_id = last_event THEN -- rows 1 and 2
            verdict := 'repeat';
            findings := findings & 8;
            result := m.result;
        ELSIF m.parked OR m.version <= parks_to AND m.version || ' ' || m.event_id = ANY (parks) THEN -- row 3
            verdict := 'waiting';
        ELSIF recorded IS NOT NULL OR m.version = last THEN -- row 4
            verdict := 'conflict';
            findings := findings | 16;
        ELSIF m.version < last AND NOT by_ids THEN -- row 5
            verdict := 'outdated';
        ELSIF waits THEN -- row 6
            verdict := 'park';
        ELSE -- rows 7 to 9
            verdict := 'run';
            IF m.version - 1 > last THEN
                missing := m.version - last - 1;
            END IF;
        END IF;
        RETURN NEXT;
        IF verdict = 'run' THEN
            ran := ran || m.version;
            ran_events := ran_events || m.event_id;
            IF m.version > last THEN
                last := m.version;
                last_event := m.event_id;
                last_generation := m.generation;
                last_partition := m.partition;
                last_sequence := m.sequence;
                last_epoch := m.epoch;
            END IF;
        ELSIF verdict IN ('park', 'conflict') THEN
            waits := true;
            parks := parks || (m.version || ' ' || m.event_id);
            parks_to := greatest(parks_to, m.version);
        END IF;
    END LOOP;
END
$function$;

-- inbox_record notes messages as dealt with and moves their streams; those that are given up, with the reason.
CREATE FUNCTION {schema}.inbox_record(
    keys bigint[], versions bigint[], events uuid[], sequences bigint[], partitions integer[], generations integer[], epochs bigint[],
    results bytea[], given_up text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET row_security = off
SET plan_cache_mode = force_generic_plan AS $function$
BEGIN
    INSERT INTO {schema}.inbox_records (stream_key, version, event_id, generation, result, skipped, note)
    SELECT w.key, w.version, w.event_id, w.generation, w.result, given_up IS NOT NULL, given_up
      FROM unnest(keys, versions, events, generations, results) AS w (key, version, event_id, generation, result)
     WHERE given_up IS NULL -- else another event may have the place, which it keeps
        OR (SELECT r.version FROM {schema}.inbox_records AS r WHERE r.stream_key = w.key AND r.version = w.version LIMIT 1) IS NULL;
    UPDATE {schema}.inbox_streams AS s
       SET version = w.version, event_id = w.event_id, generation = w.generation, partition = w.partition, sequence = w.sequence,
           epoch = w.epoch, updated_at = clock_timestamp()
      FROM (SELECT DISTINCT ON (l.key) l.*
              FROM unnest(keys, versions, events, sequences, partitions, generations, epochs)
                   AS l (key, version, event_id, sequence, partition, generation, epoch)
             ORDER BY l.key, l.version DESC) AS w
     WHERE s.stream_key = w.key AND s.version < w.version;
END
$function$;

-- inbox_park stores a message with its payload; its stream waits from now on. One that has nothing parked before it, but
-- still must wait for its turn, is due at once; a dead one never.
CREATE FUNCTION {schema}.inbox_park(
    for_consumer text, of_key bigint, of_version bigint, of_event uuid, as_state text, so_often integer, pause interval, why text,
    of_subject text, at_sequence bigint, of_envelope bytea, of_payload bytea) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET row_security = off
SET plan_cache_mode = force_generic_plan AS $function$
BEGIN
    INSERT INTO {schema}.inbox_parked (consumer, stream_key, version, event_id, state, attempts, due_at, reason, subject,
                                       stream_sequence, envelope, payload)
    SELECT for_consumer, of_key, of_version, of_event, as_state, so_often,
           CASE WHEN as_state <> 'waiting' THEN clock_timestamp() + pause
                WHEN NOT EXISTS (SELECT FROM {schema}.inbox_parked AS p WHERE p.stream_key = of_key AND p.version <= of_version)
                THEN clock_timestamp() END,
           why, of_subject, at_sequence, of_envelope, of_payload
        ON CONFLICT (stream_key, version, event_id) DO NOTHING;
    UPDATE {schema}.inbox_streams AS s SET blocked = true, updated_at = clock_timestamp() WHERE s.stream_key = of_key AND NOT s.blocked;
END
$function$;

-- inbox_unpark removes the first parked message of a stream. The next one is due now; without one the stream waits no more.
CREATE FUNCTION {schema}.inbox_unpark(of_key bigint, id bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET row_security = off
SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    next record;
BEGIN
    DELETE FROM {schema}.inbox_parked AS p WHERE p.parked_id = id;
    SELECT p.parked_id, p.state INTO next FROM {schema}.inbox_parked AS p
     WHERE p.stream_key = of_key ORDER BY p.version, p.parked_id LIMIT 1;
    IF next.state = 'waiting' THEN
        UPDATE {schema}.inbox_parked AS p SET due_at = clock_timestamp() WHERE p.parked_id = next.parked_id;
    END IF;
    UPDATE {schema}.inbox_streams AS s SET blocked = next.parked_id IS NOT NULL, updated_at = clock_timestamp() WHERE s.stream_key = of_key;
END
$function$;

-- inbox_claim marks the first parked message of a stream, when it is due, as begun before its handler runs, and due again
-- later (after so many seconds), should nobody come back from that; one that comes back says so. SKIP LOCKED: somebody else is at it. One that may
-- have ended a process is a suspect: only who lets no other suspect run beside it may mark it.
CREATE FUNCTION {schema}.inbox_claim(
    for_consumer text, by_process uuid, suspects boolean, base double precision, factor double precision, longest double precision)
RETURNS TABLE (key bigint, id bigint, begun integer)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET row_security = off
SET plan_cache_mode = force_generic_plan AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY UPDATE {schema}.inbox_parked AS p
       SET begun = CASE WHEN p.begun_by = by_process THEN p.begun ELSE least(p.begun, 2147483646) + 1 END, begun_by = by_process,
           due_at = clock_timestamp() + make_interval(secs => least(longest, base * power(factor, greatest(0, least(p.begun, 50)))))
      FROM (SELECT d.parked_id
              FROM {schema}.inbox_parked AS d
              JOIN {schema}.inbox_streams AS s USING (stream_key)
             WHERE d.consumer = for_consumer AND d.due_at IS NOT NULL
               -- What never failed waits for no clock, and none that stepped back puts off a retry by more than one can wait.
               AND (d.due_at <= clock_timestamp() OR d.due_at > clock_timestamp() + make_interval(secs => longest)
                    OR d.attempts = 0 AND d.begun = 0)
               AND (suspects OR d.begun = 0 OR (d.begun = 1 AND d.begun_by = by_process))
               AND NOT EXISTS (SELECT FROM {schema}.inbox_parked AS e
                                WHERE e.stream_key = d.stream_key AND (e.version, e.parked_id) < (d.version, d.parked_id))
             ORDER BY d.due_at
             LIMIT 1
               FOR NO KEY UPDATE OF s SKIP LOCKED) AS head
     WHERE p.parked_id = head.parked_id
       AND (p.due_at <= clock_timestamp() OR p.due_at > clock_timestamp() + make_interval(secs => longest)
            OR p.due_at IS NOT NULL AND p.attempts = 0 AND p.begun = 0)
    RETURNING p.stream_key, p.parked_id, p.begun;
END
$function$;

-- What follows is the inbox for consumers in other languages: docs/inbox-protocol.md says how it is called.

-- inbox_parse reads what identifies a message from its headers, of which texts has the first value each; problem says what is
-- wrong with one that Postrider cannot have published. Package message does the same in Go.
CREATE FUNCTION {schema}.inbox_parse(
    headers jsonb, OUT texts jsonb, OUT stream text, OUT version bigint, OUT event_id uuid, OUT sequence bigint, OUT partition integer,
    OUT generation integer, OUT epoch bigint, OUT problem text)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    names constant text[] := '{Outbox-Stream-Version,Outbox-Sequence,Outbox-Partition,Outbox-Generation,Outbox-Epoch}';
    low   constant bigint[] := '{1,1,0,0,0}';
    high  constant bigint[] := '{9223372036854775807,9223372036854775807,32767,2147483647,9223372036854775807}';
    read  bigint[];
    given text;
BEGIN
    IF jsonb_typeof(headers) IS DISTINCT FROM 'object' THEN
        problem := 'headers must be a JSON object';
        RETURN;
    END IF;
    texts := (SELECT jsonb_object_agg(e.key, CASE jsonb_typeof(e.value) WHEN 'array' THEN e.value -> 0 ELSE e.value END)
                FROM jsonb_each(headers) AS e);
    stream := texts ->> 'Outbox-Stream';
    given := coalesce(texts ->> 'Outbox-Event-Id', '');
    IF given !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' OR given::uuid = '00000000-0000-0000-0000-000000000000' THEN
        problem := 'Outbox-Event-Id must be a UUID, and not zero';
    ELSIF coalesce(octet_length(stream), 0) NOT BETWEEN 1 AND 2000 THEN
        problem := 'Outbox-Stream must have 1 to 2000 bytes';
    ELSIF coalesce(texts ->> 'Outbox-Type', '') = '' THEN
        problem := 'Outbox-Type must not be empty';
    ELSE
        event_id := given;
        FOR i IN 1 .. 5 LOOP
            given := coalesce(texts ->> names[i], CASE WHEN i > 3 THEN '0' END, '');
            IF given !~ '^[0-9]{1,19}$' OR given::numeric NOT BETWEEN low[i] AND high[i] THEN
                problem := format('%s must be a whole number of %s to %s', names[i], low[i], high[i]);
                RETURN;
            END IF;
            read[i] := given;
        END LOOP;
        version := read[1];
        sequence := read[2];
        partition := read[3];
        generation := read[4];
        epoch := read[5];
    END IF;
END
$function$;

-- inbox_receive deals with one message: without a failure as inbox_begin says, with one as inbox_failed does.
CREATE FUNCTION {schema}.inbox_receive(
    for_consumer text, of_subject text, at_sequence bigint, headers jsonb, body bytea, ticket bigint, by_ids boolean,
    failure text, final boolean, max_attempts integer, base interval, longest interval,
    OUT verdict text, OUT result bytea, OUT findings text, OUT missing bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET row_security = off
SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    m        record;
    d        record;
    h        record;
    often    integer := 0;
    pause    interval; -- NULL: never again
    why      text;
    envelope bytea;
BEGIN
    SELECT * INTO m FROM {schema}.inbox_parse(headers);
    IF m.problem IS NOT NULL THEN
        INSERT INTO {schema}.inbox_malformed (consumer, stream_sequence, subject, reason, envelope, payload)
        VALUES (for_consumer, at_sequence, of_subject, m.problem, convert_to(coalesce(headers, '{}')::text, 'UTF8'), coalesce(body, ''))
            ON CONFLICT (consumer, stream_sequence) DO UPDATE
           SET received_at = clock_timestamp(), subject = EXCLUDED.subject, reason = EXCLUDED.reason, envelope = EXCLUDED.envelope,
               payload = EXCLUDED.payload;
        verdict := 'malformed';
        RETURN;
    END IF;
    SELECT * INTO d FROM {schema}.inbox_decide(for_consumer, by_ids, false, ARRAY[m.stream], ARRAY[m.version], ARRAY[m.event_id],
        ARRAY[m.sequence], ARRAY[m.partition], ARRAY[m.generation], ARRAY[m.epoch]);
    IF ticket IS NOT NULL THEN -- a parked message runs when it is its turn, whatever became of it since it was handed out
        SELECT p.parked_id, p.version, p.event_id, p.state, p.attempts, p.begun INTO h
          FROM {schema}.inbox_parked AS p WHERE p.stream_key = d.key ORDER BY p.version, p.parked_id LIMIT 1;
        IF (h.parked_id, h.version, h.event_id) = (ticket, m.version, m.event_id) AND h.state <> 'dead' THEN
            often := h.attempts + greatest(h.begun - 1, 0);
            SELECT * INTO d FROM {schema}.inbox_decide(for_consumer, by_ids, true, ARRAY[m.stream], ARRAY[m.version], ARRAY[m.event_id],
                ARRAY[m.sequence], ARRAY[m.partition], ARRAY[m.generation], ARRAY[m.epoch]);
        ELSE
            ticket := NULL;
        END IF;
    END IF;
    verdict := CASE d.verdict WHEN 'park' THEN 'waiting' ELSE d.verdict END;
    result := d.result;
    missing := d.missing;
    findings := array_to_string(ARRAY[
        CASE WHEN d.findings & 1 > 0 THEN 'gap' END, CASE WHEN d.findings & 2 > 0 THEN 'reversal' END,
        CASE WHEN d.findings & 4 > 0 THEN 'lower_generation' END, CASE WHEN d.findings & 8 > 0 THEN 'lower_epoch' END,
        CASE WHEN d.findings & 16 > 0 THEN 'conflict' END], ',');
    IF d.verdict = 'run' AND failure IS NOT NULL THEN
        often := often + 1;
        verdict := 'dead';
        why := left(failure, 4096);
        IF NOT final AND NOT coalesce(often >= max_attempts, false) THEN
            verdict := 'failed';
            pause := make_interval(secs => least(extract(epoch FROM longest)::double precision,
                extract(epoch FROM base)::double precision * power(2::double precision, least(often - 1, 50))) * (0.5 + random() / 2));
        END IF;
    ELSIF d.verdict = 'conflict' THEN
        why := 'another event has this stream and version: the producer''s database forgot published events';
    END IF;
    IF verdict IN ('failed', 'dead', 'conflict') AND ticket IS NOT NULL THEN
        UPDATE {schema}.inbox_parked AS p
           SET state = CASE verdict WHEN 'failed' THEN 'failed' ELSE 'dead' END, attempts = often, due_at = clock_timestamp() + pause,
               reason = why, begun = 0, begun_by = NULL
         WHERE p.parked_id = ticket;
    ELSIF verdict IN ('failed', 'dead', 'conflict') OR d.verdict = 'park' THEN
        -- As package inbox keeps it: everything but the payload.
        envelope := convert_to(jsonb_build_object(
            'EventID', m.event_id, 'Stream', m.stream, 'Version', m.version, 'Type', m.texts ->> 'Outbox-Type', 'Sequence', m.sequence,
            'Partition', m.partition, 'Generation', m.generation, 'Epoch', m.epoch, 'TraceParent', coalesce(m.texts ->> 'traceparent', ''),
            'TraceState', coalesce(m.texts ->> 'tracestate', ''), 'CorrelationID', coalesce(m.texts ->> 'Outbox-Correlation-Id', ''),
            'CausationID', coalesce(m.texts ->> 'Outbox-Causation-Id', ''),
            'Header', (SELECT jsonb_object_agg(e.key, jsonb_build_array(e.value)) FROM jsonb_each_text(m.texts) AS e))::text, 'UTF8');
        PERFORM {schema}.inbox_park(for_consumer, d.key, m.version, m.event_id, CASE verdict WHEN 'conflict' THEN 'dead' ELSE verdict END,
            often, pause, why, of_subject, at_sequence, envelope, coalesce(body, ''));
    ELSE
        IF verdict = 'run' THEN
            PERFORM {schema}.inbox_record(ARRAY[d.key], ARRAY[m.version], ARRAY[m.event_id], ARRAY[m.sequence], ARRAY[m.partition],
                ARRAY[m.generation], ARRAY[m.epoch], ARRAY[NULL::bytea], NULL::text);
        END IF;
        IF ticket IS NOT NULL THEN
            PERFORM {schema}.inbox_unpark(d.key, ticket);
        END IF;
    END IF;
END
$function$;

CREATE FUNCTION {schema}.inbox_begin(
    consumer text, subject text, stream_sequence bigint, headers jsonb, payload bytea, parked bigint DEFAULT NULL,
    by_ids boolean DEFAULT false, OUT verdict text, OUT result bytea, OUT findings text, OUT missing bigint)
LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $function$
    SELECT * FROM {schema}.inbox_receive($1, $2, $3, $4, $5, $6, $7, NULL::text, false, NULL::integer, NULL::interval, NULL::interval)
$function$;
COMMENT ON FUNCTION {schema}.inbox_begin(text, text, bigint, jsonb, bytea, bigint, boolean) IS
    'Decides about a message, and records it: verdict run says that its effect belongs into this transaction.';

CREATE FUNCTION {schema}.inbox_failed(
    consumer text, subject text, stream_sequence bigint, headers jsonb, payload bytea, reason text, parked bigint DEFAULT NULL,
    by_ids boolean DEFAULT false, final boolean DEFAULT false, max_attempts integer DEFAULT 8, base interval DEFAULT '1 second',
    longest interval DEFAULT '5 minutes') RETURNS text
LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $function$
    SELECT r.verdict FROM {schema}.inbox_receive($1, $2, $3, $4, $5, $7, $8, coalesce($6, ''), $9, $10, $11, $12) AS r
$function$;
COMMENT ON FUNCTION {schema}.inbox_failed(text, text, bigint, jsonb, bytea, text, bigint, boolean, boolean, int, interval, interval) IS
    'Parks a message whose effect failed and was rolled back; its stream waits for it.';

CREATE FUNCTION {schema}.inbox_done(consumer text, headers jsonb, result bytea) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET row_security = off
SET plan_cache_mode = force_generic_plan AS $function$
#variable_conflict use_column
DECLARE
    m record;
BEGIN
    SELECT * INTO m FROM {schema}.inbox_parse($2);
    UPDATE {schema}.inbox_records AS r SET result = $3
      FROM (SELECT s.stream_key FROM {schema}.inbox_streams AS s WHERE s.consumer = $1 AND s.stream = m.stream LIMIT 1) AS s
     WHERE r.stream_key = s.stream_key AND r.version = m.version AND r.event_id = m.event_id AND r.result IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no message without a result is recorded for these headers' USING ERRCODE = '55000',
            HINT = 'Call inbox_done once, in the transaction in which inbox_begin said run.';
    END IF;
END
$function$;
COMMENT ON FUNCTION {schema}.inbox_done(text, jsonb, bytea) IS 'Stores what repeats of the message are answered with.';

CREATE FUNCTION {schema}.inbox_next(
    consumer text, process uuid, max_attempts integer DEFAULT 8, base interval DEFAULT '1 second', longest interval DEFAULT '5 minutes')
RETURNS TABLE (parked bigint, subject text, stream_sequence bigint, headers jsonb, payload bytea)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET row_security = off
SET plan_cache_mode = force_generic_plan AS $function$
#variable_conflict use_column
DECLARE
    c record;
    h record;
BEGIN
    LOOP
        SELECT * INTO c FROM {schema}.inbox_claim($1, process, true, extract(epoch FROM base)::double precision,
                                                  2::double precision, extract(epoch FROM longest)::double precision);
        IF c.id IS NULL THEN
            RETURN;
        END IF;
        SELECT p.attempts, p.subject, p.stream_sequence, p.envelope, p.payload INTO h
          FROM {schema}.inbox_parked AS p WHERE p.parked_id = c.id;
        EXIT WHEN NOT coalesce(h.attempts + c.begun - 1 >= max_attempts, false);
        UPDATE {schema}.inbox_parked AS p
           SET state = 'dead', attempts = h.attempts + c.begun - 1, due_at = NULL, begun = 0, begun_by = NULL,
               reason = 'the process ended each time that the handler ran'
         WHERE p.parked_id = c.id;
    END LOOP;
    RETURN QUERY SELECT c.id, h.subject, h.stream_sequence,
        (SELECT jsonb_object_agg(e.key, e.value ->> 0) FROM jsonb_each(convert_from(h.envelope, 'UTF8')::jsonb -> 'Header') AS e),
        h.payload;
END
$function$;
COMMENT ON FUNCTION {schema}.inbox_next(text, uuid, int, interval, interval) IS
    'Hands out a parked message that is due; commit before inbox_begin is given it.';

REVOKE EXECUTE ON FUNCTION
    {schema}.inbox_decide(text, boolean, boolean, text[], bigint[], uuid[], bigint[], int[], int[], bigint[]),
    {schema}.inbox_record(bigint[], bigint[], uuid[], bigint[], int[], int[], bigint[], bytea[], text),
    {schema}.inbox_park(text, bigint, bigint, uuid, text, int, interval, text, text, bigint, bytea, bytea), {schema}.inbox_unpark(bigint, bigint),
    {schema}.inbox_claim(text, uuid, boolean, float8, float8, float8), {schema}.inbox_parse(jsonb),
    {schema}.inbox_receive(text, text, bigint, jsonb, bytea, bigint, boolean, text, boolean, int, interval, interval),
    {schema}.inbox_begin(text, text, bigint, jsonb, bytea, bigint, boolean),
    {schema}.inbox_failed(text, text, bigint, jsonb, bytea, text, bigint, boolean, boolean, int, interval, interval),
    {schema}.inbox_done(text, jsonb, bytea), {schema}.inbox_next(text, uuid, int, interval, interval) FROM PUBLIC;

-- What default privileges gave to others is taken back. What else lies in the schema is the application's.
DO $do$
DECLARE
    ours constant text[] := '{
        inbox_schema_version, inbox_streams, inbox_records, inbox_parked, inbox_senders, inbox_calls, inbox_callers, inbox_consumers, inbox_lanes,
        inbox_readers, inbox_malformed, "inbox_decide(text, boolean, boolean, text[], bigint[], uuid[], bigint[], int[], int[], bigint[])",
        "inbox_record(bigint[], bigint[], uuid[], bigint[], int[], int[], bigint[], bytea[], text)",
        "inbox_park(text, bigint, bigint, uuid, text, int, interval, text, text, bigint, bytea, bytea)", "inbox_unpark(bigint, bigint)",
        "inbox_claim(text, uuid, boolean, float8, float8, float8)", "inbox_parse(jsonb)",
        "inbox_receive(text, text, bigint, jsonb, bytea, bigint, boolean, text, boolean, int, interval, interval)",
        "inbox_begin(text, text, bigint, jsonb, bytea, bigint, boolean)",
        "inbox_failed(text, text, bigint, jsonb, bytea, text, bigint, boolean, boolean, int, interval, interval)", "inbox_done(text, jsonb, bytea)",
        "inbox_next(text, uuid, int, interval, interval)"}';
    one record;
BEGIN
    FOR one IN
        SELECT DISTINCT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.oid::regclass::text AS name, a.grantee
          FROM pg_class AS t
          LEFT JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid AND d.deptype = 'i'
          JOIN pg_class AS c ON c.oid = t.oid OR c.oid = d.objid AND c.relkind = 'S'
         CROSS JOIN LATERAL aclexplode(c.relacl) AS a
         WHERE t.relnamespace = '{schema}'::regnamespace AND t.relkind = 'r' AND t.relname = ANY (ours)
           AND pg_get_userbyid(c.relowner) = current_user AND a.grantee <> c.relowner
         UNION ALL
        SELECT DISTINCT 'FUNCTION', f.oid::regprocedure::text, a.grantee
          FROM pg_proc AS f CROSS JOIN LATERAL aclexplode(f.proacl) AS a
         WHERE a.grantee NOT IN (f.proowner, 0)
           AND f.oid IN (SELECT to_regprocedure(CASE WHEN strpos(o.name, '(') > 0 THEN '{schema}.' || o.name END) FROM unnest(ours) AS o (name))
    LOOP
        EXECUTE format('REVOKE ALL ON %s %s FROM %s CASCADE', one.kind, one.name,
                       CASE one.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(one.grantee)) END);
    END LOOP;
END
$do$;
