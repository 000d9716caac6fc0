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
CREATE INDEX outbox_audit_certificates_idx ON {schema}.outbox_audit ((target ->> 'stream'), id) WHERE action = 'stream.audit';

-- Of the certificates of audits of a stream, which come by themselves, the newest thousand stay. Who may only add to the audit needs no
-- right to delete from it.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_audit_sweep() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    DELETE FROM {schema}.outbox_audit AS a
     WHERE a.action = 'stream.audit' AND a.target ->> 'stream' = new.target ->> 'stream'
       AND a.id <= (SELECT c.id FROM {schema}.outbox_audit AS c
                     WHERE c.action = 'stream.audit' AND c.target ->> 'stream' = new.target ->> 'stream'
                     ORDER BY c.id DESC OFFSET 1000 LIMIT 1);
    RETURN NULL;
END
$function$;
-- +goose StatementEnd
CREATE TRIGGER outbox_audit_sweep AFTER INSERT ON {schema}.outbox_audit
    FOR EACH ROW WHEN (new.action = 'stream.audit') EXECUTE FUNCTION {schema}.outbox_audit_sweep();
REVOKE EXECUTE ON FUNCTION {schema}.outbox_audit_sweep() FROM PUBLIC;

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
    rate            float8,
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
COMMENT ON COLUMN {schema}.outbox_replays.rate            IS 'Most events a second, of one that a process with a monitor runs; NULL: a command does.';
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

-- Events in parts, so that old ones go as files go. A part holds 10^12 sequences; the next one begins when the identity is
-- moved to its first sequence, in front of which no sequence is drawn any more. So a part ends when it is wished, nothing is
-- scanned, and an insert always finds a part. The functions are the owner's.

-- What keeps events from being put into a partitioned table in its own place; NULL: nothing.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_events_hindrance() RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $function$
    SELECT string_agg(h.text, '; ' ORDER BY h.text)
      FROM (SELECT format('view %s reads it', v.oid::regclass) AS text
              FROM pg_depend AS d JOIN pg_rewrite AS r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class AS v ON v.oid = r.ev_class
             WHERE d.refobjid = '{schema}.events'::regclass AND v.oid NOT IN ('{schema}.outbox_messages'::regclass, '{schema}.events'::regclass)
             UNION
            SELECT format('function %s reads it', d.objid::regprocedure) FROM pg_depend AS d
             WHERE d.classid = 'pg_proc'::regclass AND d.refobjid = '{schema}.events'::regclass
             UNION
            SELECT format('foreign key %I of %s refers to it', c.conname, c.conrelid::regclass)
              FROM pg_constraint AS c WHERE c.contype = 'f' AND c.confrelid = '{schema}.events'::regclass
             UNION
            SELECT format('trigger %I is on it', g.tgname) FROM pg_trigger AS g WHERE g.tgrelid = '{schema}.events'::regclass AND NOT g.tgisinternal
             UNION
            SELECT format('rule %I is on it', r.rulename) FROM pg_rewrite AS r WHERE r.ev_class = '{schema}.events'::regclass
             UNION
            SELECT format('policies are on it') FROM pg_class AS c WHERE c.oid = '{schema}.events'::regclass AND c.relrowsecurity
             UNION
            SELECT format('publication %I has it', p.pubname)
              FROM pg_publication_rel AS m JOIN pg_publication AS p ON p.oid = m.prpubid WHERE m.prrelid = '{schema}.events'::regclass
             UNION
            SELECT 'its sequences are about to pass 10^12, where the first part ends'
             WHERE 900000000000 <= greatest((SELECT max(e.sequence) FROM {schema}.events AS e), (SELECT s.last_value FROM {schema}.events_sequence_seq AS s))
             UNION
            SELECT format('%s has a name that its parts need: rename it', c.oid::regclass) FROM pg_class AS c
             WHERE c.relnamespace = '{schema}'::regnamespace
               AND c.relname IN ('events_0', 'events_0_pkey', 'events_0_event_id_key', 'events_0_stream_version_key',
                                 'events_1', 'events_1_event_id_key', 'events_1_stream_version_key')
             UNION
            SELECT format('type %s has a name that its parts need: rename it', t.oid::regtype) FROM pg_type AS t
             WHERE t.typnamespace = '{schema}'::regnamespace AND t.typrelid = 0 AND t.typelem = 0 AND t.typname IN ('events_0', 'events_1')
             UNION
            SELECT format('%s inherits', i.inhrelid::regclass) FROM pg_inherits AS i WHERE i.inhparent = '{schema}.events'::regclass) AS h
$function$;
-- +goose StatementEnd

-- Takes from others what default privileges gave them on tables and views of such names, the sequences of these, and functions of such
-- signatures. All else in the schema is the application's. What everybody may do with functions is said where these are made.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_take_back(ours text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT DISTINCT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.oid::regclass::text AS name, a.grantee
          FROM pg_class AS t
          LEFT JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid AND d.deptype = 'i'
          JOIN pg_class AS c ON c.oid = t.oid OR c.oid = d.objid AND c.relkind = 'S'
         CROSS JOIN LATERAL aclexplode(c.relacl) AS a
         WHERE t.relnamespace = '{schema}'::regnamespace AND t.relkind IN ('r', 'p', 'v') AND t.relname = ANY (ours) AND a.grantee <> c.relowner
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
$function$;
-- +goose StatementEnd

-- Makes the part with that number, if it is not there. What ATTACH PARTITION locks lets producers write.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_events_add(part bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    name text := 'events_' || part;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
                    WHERE i.inhparent = '{schema}.events'::regclass AND c.relname = name) THEN
        IF to_regclass('{schema}.' || name) IS NOT NULL THEN
            RAISE EXCEPTION '{schema}.% is no part of events and has the name of the next one', name USING ERRCODE = '42P07', HINT = 'Rename it.';
        END IF;
        EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING COMMENTS)', name);
        EXECUTE format('ALTER TABLE {schema}.%I ADD CONSTRAINT %I UNIQUE (event_id), ADD CONSTRAINT %I UNIQUE (stream_id, stream_version)',
                       name, name || '_event_id_key', name || '_stream_version_key');
        EXECUTE format('ALTER TABLE {schema}.%I OWNER TO %I', name,
                       (SELECT pg_get_userbyid(c.relowner) FROM pg_class AS c WHERE c.oid = '{schema}.events'::regclass));
        PERFORM {schema}.outbox_take_back(ARRAY[name]::text[]);
        EXECUTE format('ALTER TABLE {schema}.events ATTACH PARTITION {schema}.%I FOR VALUES FROM (%s) TO (%s)',
                       name, part * 1000000000000, (part + 1) * 1000000000000);
    END IF;
END
$function$;
-- +goose StatementEnd

-- Promises that the table of events ends where the second part begins, so that it can become the first one without
-- being read. The promise is checked afterwards (VALIDATE CONSTRAINT), beside producers.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_events_bound() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conrelid = '{schema}.events'::regclass AND c.conname = 'events_bound') THEN
        ALTER TABLE {schema}.events ADD CONSTRAINT events_bound CHECK (sequence < 1000000000000) NOT VALID;
    END IF;
END
$function$;
-- +goose StatementEnd

-- Puts a partitioned table in the place of events, and events into it as its first part. Rights go over; sessions plan anew.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_events_split() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    last     bigint;
    shown    text := pg_get_viewdef('{schema}.outbox_messages'::regclass);
    whole    regclass;
    one      record;
BEGIN
    LOCK TABLE {schema}.events IN ACCESS EXCLUSIVE MODE;
    PERFORM 1 / count(*)
      FROM pg_constraint AS c WHERE c.conrelid = '{schema}.events'::regclass AND c.conname = 'events_bound' AND c.convalidated;
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END INTO last FROM {schema}.events_sequence_seq AS s;
    whole := '{schema}.events'::regclass;
    ALTER TABLE {schema}.events RENAME TO events_0;
    ALTER TABLE {schema}.events_0 RENAME CONSTRAINT events_pkey TO events_0_pkey;
    ALTER TABLE {schema}.events_0 RENAME CONSTRAINT events_event_id_key TO events_0_event_id_key;
    ALTER TABLE {schema}.events_0 RENAME CONSTRAINT events_stream_version_key TO events_0_stream_version_key;
    ALTER TABLE {schema}.events_0 ALTER COLUMN sequence DROP IDENTITY;
    CREATE TABLE {schema}.events (LIKE {schema}.events_0 INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING COMMENTS)
        PARTITION BY RANGE (sequence);
    ALTER TABLE {schema}.events DROP CONSTRAINT events_bound;
    ALTER TABLE {schema}.events ADD CONSTRAINT events_pkey PRIMARY KEY (sequence);
    EXECUTE format('ALTER TABLE {schema}.events ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (CACHE 1 START WITH %s)', last + 1);
    EXECUTE format('ALTER TABLE {schema}.events OWNER TO %I', (SELECT pg_get_userbyid(c.relowner) FROM pg_class AS c WHERE c.oid = whole));
    EXECUTE format('COMMENT ON TABLE {schema}.events IS %L', obj_description(whole, 'pg_class'));
    ALTER TABLE {schema}.events ATTACH PARTITION {schema}.events_0 FOR VALUES FROM (MINVALUE) TO (1000000000000);
    ALTER TABLE {schema}.events_0 DROP CONSTRAINT events_bound;
    PERFORM {schema}.outbox_events_add(1::bigint);
    PERFORM {schema}.outbox_take_back('{events}'::text[]);
    FOR one IN SELECT a.privilege_type, NULL AS place, a.grantee, a.is_grantable, c.relowner
                 FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = whole
                UNION ALL
               SELECT a.privilege_type, t.attname, a.grantee, a.is_grantable, c.relowner
                 FROM pg_class AS c JOIN pg_attribute AS t ON t.attrelid = c.oid, aclexplode(t.attacl) AS a
                WHERE c.oid = whole AND NOT t.attisdropped LOOP
        CONTINUE WHEN one.grantee = one.relowner;
        EXECUTE format('GRANT %s%s ON {schema}.events TO %s%s', one.privilege_type, '(' || quote_ident(one.place) || ')',
                       CASE one.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(one.grantee)) END,
                       CASE WHEN one.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    EXECUTE 'CREATE OR REPLACE VIEW {schema}.outbox_messages AS ' || shown;
    UPDATE {schema}.outbox_settings SET events_in_parts = true;
END
$function$;
-- +goose StatementEnd

-- Begins the next part, unless the last one is empty, and makes the one behind it. Whoever appends holds a lock that this one
-- waits for, from before the lookup of ids and versions: so nobody who found them free before the new part writes into it.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_events_begin() RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    upper bigint;
BEGIN
    LOCK TABLE ONLY {schema}.events IN SHARE ROW EXCLUSIVE MODE;
    SELECT s.last_value / 1000000000000 + 1 INTO upper FROM {schema}.events_sequence_seq AS s;
    PERFORM {schema}.outbox_events_add(upper);
    IF NOT EXISTS (SELECT FROM {schema}.events AS e WHERE e.sequence >= (upper - 1) * 1000000000000) THEN
        RETURN NULL;
    END IF;
    PERFORM {schema}.outbox_events_add(upper + 1);
    UPDATE {schema}.outbox_settings SET events_in_parts = true; -- who has a snapshot from before is refused (outbox_refuse_old_settings)
    PERFORM setval('{schema}.events_sequence_seq', upper * 1000000000000, false);
    RETURN upper;
END
$function$;
-- +goose StatementEnd

-- Drops the oldest part. The heads of its streams stay, as far as nothing of them comes later, and are noted before anybody is
-- locked out. The answer is why it may not be dropped; NULL: it is.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_events_drop(part bigint) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    name text   := 'events_' || part;
    upper bigint := (part + 1) * 1000000000000;
    one  text;
BEGIN
    DELETE FROM {schema}.outbox_stream_heads AS h
     WHERE EXISTS (SELECT FROM {schema}.events AS e WHERE e.stream_id = h.stream_id AND e.sequence >= upper);
    INSERT INTO {schema}.outbox_stream_heads AS h (stream_id, stream_version)
    SELECT e.stream_id, max(e.stream_version) FROM {schema}.events AS e
     WHERE e.sequence < upper
     GROUP BY e.stream_id
    HAVING NOT EXISTS (SELECT FROM {schema}.events AS later WHERE later.stream_id = e.stream_id AND later.sequence >= upper)
        ON CONFLICT (stream_id) DO UPDATE SET stream_version = greatest(h.stream_version, excluded.stream_version);
    LOCK TABLE ONLY {schema}.events IN ACCESS EXCLUSIVE MODE;
    SELECT min(substring(c.relname FROM 8)::bigint)::text INTO one
      FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = '{schema}.events'::regclass;
    IF one IS DISTINCT FROM part::text THEN
        RETURN format('the oldest part is %s', one);
    ELSIF NOT EXISTS (SELECT FROM {schema}.events AS e WHERE e.sequence >= upper) THEN
        RETURN 'no later part has an event, and the newest event must stay';
    END IF;
    SELECT o.global_sequence::text INTO one
      FROM (SELECT r.partition_key FROM {schema}.outbox_partitions AS r -- a row may have been deleted, and be put back by sync
            UNION SELECT generate_series(0, s.partition_count - 1)::smallint FROM {schema}.outbox_settings AS s) AS p
     CROSS JOIN LATERAL (SELECT o.global_sequence FROM {schema}.outbox AS o
                          WHERE o.partition_key = p.partition_key AND o.global_sequence < upper LIMIT 1) AS o LIMIT 1;
    IF FOUND THEN
        RETURN format('event %s waits in the outbox', one);
    END IF;
    SELECT r.id::text INTO one FROM {schema}.outbox_replays AS r
     WHERE r.state IN ('planned', 'running', 'paused') AND r.position < upper LIMIT 1;
    IF FOUND THEN
        RETURN format('replay %s has not come past it', one);
    END IF;
    EXECUTE format('DROP TABLE {schema}.%I', name);
    UPDATE {schema}.outbox_settings SET events_from = upper;
    RETURN NULL;
END
$function$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION
    {schema}.outbox_events_hindrance(), {schema}.outbox_events_drop(bigint), {schema}.outbox_events_add(bigint), {schema}.outbox_events_bound(),
    {schema}.outbox_events_split(), {schema}.outbox_events_begin(), {schema}.outbox_take_back(text[]) FROM PUBLIC;
SELECT {schema}.outbox_take_back('{
    outbox_schema_version, outbox_settings, events, outbox_stream_heads, outbox, outbox_ready, outbox_parked, outbox_dedupe_keys, outbox_types,
    outbox_deliveries, outbox_partitions, outbox_former_partitions, outbox_watermark, outbox_workers, outbox_throughput, outbox_messages,
    outbox_audit, outbox_ownership, outbox_replays, outbox_replay_sequences, "outbox_durable()", "outbox_xxhash64(bytea)",
    "outbox_hash_partition(bigint, int)", "outbox_partition(text, int)", "outbox_utf8()", "outbox_bad_utf8(text, int, int)",
    "outbox_bad_text(text)", "outbox_bad_value(text)", "outbox_bad_time(timestamptz)",
    "outbox_metadata_problem(jsonb)", "outbox_event_problem(text, text, text, text, text, text, bigint, int, jsonb, timestamptz, timestamptz, uuid)",
    "outbox_rules_problem(jsonb, jsonb, text)", "outbox_pointer_token(text)", "outbox_pattern_problem(jsonb)", "outbox_schema_problem(jsonb)",
    "outbox_mismatch(jsonb, jsonb, jsonb, text, int)", "outbox_check_payload(text, jsonb, bytea, bigint)", "outbox_without_enqueue()",
    "outbox_is_replaying()",
    "outbox_append_event(text, text, bytea, bigint, jsonb, text, text, bigint, text, text, boolean, timestamptz, uuid, timestamptz)",
    "outbox_refuse_old_settings()", "outbox_refuse_ids(uuid[])", "outbox_refuse_key(text, text, text, bigint)",
    "outbox_version_conflict(text, bigint, bigint)",
    "outbox_append_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz)",
    "outbox_append(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz)",
    "outbox_append_one(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz)",
    "outbox_append_one_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz)",
    "outbox_append_batch(text[], text[], bytea[], uuid[], bigint[], jsonb[], text[], text[], bigint[], text[], text[], boolean[], timestamptz[], timestamptz[])",
    "outbox_adopted_name(text)", "outbox_adopted_headers(jsonb)", "outbox_adopted_metadata(text, boolean)",
    "outbox_adopted_event(text, text, uuid, text, text, text, bytea, text, boolean, text, text, timestamptz)",
    "outbox_append_adopted(text, text, uuid, text, text, text, bytea, text, boolean, text, text, timestamptz)",
    "outbox_state(timestamptz, boolean, int, boolean, timestamptz, timestamptz)", "outbox_events_hindrance()", "outbox_take_back(text[])",
    "outbox_audit_sweep()", "outbox_events_add(bigint)", "outbox_events_bound()", "outbox_events_split()", "outbox_events_begin()", "outbox_events_drop(bigint)"}'::text[]);

-- +goose Down
DROP FUNCTION {schema}.outbox_events_drop(bigint);
DROP FUNCTION {schema}.outbox_events_begin();
DROP FUNCTION {schema}.outbox_events_split();
DROP FUNCTION {schema}.outbox_events_bound();
DROP FUNCTION {schema}.outbox_events_add(bigint);
DROP FUNCTION {schema}.outbox_take_back(text[]);
DROP FUNCTION {schema}.outbox_events_hindrance();
DROP TABLE {schema}.outbox_replay_sequences;
DROP TABLE {schema}.outbox_replays;
DROP TABLE {schema}.outbox_ownership;
DROP TABLE {schema}.outbox_audit;
DROP FUNCTION {schema}.outbox_audit_sweep();
