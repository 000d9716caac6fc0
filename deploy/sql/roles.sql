-- Roles with the least rights that do their work. Run it in the outbox's database (and in another one that holds inboxes)
-- before the first `postrider migrate up`, which makes the roles, and again after every one, which gives them their rights on the tables:
--
--   psql -v ON_ERROR_STOP=1 -f roles.sql
--   psql -v ON_ERROR_STOP=1 -c "SET postrider.schema = 'shop'" -f roles.sql      tables in another schema than public
--   psql -v ON_ERROR_STOP=1 -c "SET postrider.canary = 'on'" -f roles.sql        workers run with --canary, and append its events
--
-- The first time it wants a superuser, or a role with CREATEROLE that owns the database; later the migrator will do.
-- Repeating it is harmless: what these roles hold on the outbox's tables is taken away and given anew.
--
--   postrider_migrator   owns the tables: postrider migrate, partitions resize, partitions sync
--   postrider_producer   appends events through the functions, and can neither read nor write a table
--   postrider_worker     postrider run; reads events and never writes them
--   postrider_monitor    postrider status, workers, partitions list: of the events it reads when they were recorded
--   postrider_operator   postrider messages, dead, replay, gaps, types, asyncapi, workers drain, partitions pause and resume; reads
--                        no payload
--   postrider_consumer   consumers with package inbox or its functions, and postrider inbox dead, requeue and skip: the
--                        inbox's tables and functions alone. What handlers do to other tables is granted by those who own them
--
-- None of them can log in. Either let them, ALTER ROLE postrider_worker LOGIN PASSWORD '…', or grant them to logins of
-- your own, GRANT postrider_worker TO shop_relay. Who migrates must be postrider_migrator itself, so that one role owns
-- all tables: ALTER ROLE shop_deploy SET role = 'postrider_migrator' does that for a login of yours.
--
-- The monitor of a worker works with the worker's own rights, which suffice to show messages and to act on them; who may do
-- so is up to its settings (--http-read-only, credentials that may only look). Of the audit it shows nothing, unless the
-- worker's login holds postrider_monitor, too; and it makes and runs no replays, unless that holds postrider_operator, and
-- does not resize, unless that is a member of postrider_migrator.

-- Where producers ring no bell, as in psql, events wait for the next poll, unless workers hear of commits from the log
-- (docs/adr/0026). That takes wal_level = logical, connections past any pooler, and by a superuser, with the role that logs in:
--
--   ALTER ROLE shop_relay REPLICATION;
--   CREATE PUBLICATION postrider_public FOR TABLE public.outbox_ready WITH (publish = 'insert');     -- postrider_<schema>
--
-- It reads the log of the whole database and keeps a database awake that suspends itself. DROP PUBLICATION ends it.

-- Whoever may create in a schema of the path would say what the names below mean, and this runs as a superuser.
SET search_path = pg_catalog, pg_temp;

DO $$
DECLARE
    target constant text := coalesce(nullif(current_setting('postrider.schema', true), ''), 'public');
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['migrator', 'producer', 'worker', 'monitor', 'operator', 'consumer'] LOOP
        name := 'postrider_' || name;
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
    END LOOP;
    IF to_regnamespace(quote_ident(target)) IS NULL THEN
        EXECUTE format('CREATE SCHEMA %I', target);
    END IF;
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO postrider_migrator', target);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO postrider_producer, postrider_worker, postrider_monitor, postrider_operator,
        postrider_consumer', target);
    -- Names the transaction that holds back the order or vacuum. Everything else works without it.
    BEGIN
        GRANT pg_read_all_stats TO postrider_worker, postrider_monitor, postrider_operator;
    EXCEPTION WHEN insufficient_privilege THEN
        IF NOT pg_has_role('postrider_worker', 'pg_read_all_stats', 'USAGE') THEN
            RAISE WARNING 'pg_read_all_stats was not granted: stalls will show process ids only, and outbox_held_xmin_* nothing';
        END IF;
    END;
END $$;

DO $$
DECLARE
    target constant text := coalesce(nullif(current_setting('postrider.schema', true), ''), 'public');
    read_tables constant text := 'outbox, outbox_ready, outbox_parked, outbox_messages, outbox_deliveries, outbox_partitions, '
        'outbox_workers, outbox_throughput, outbox_audit, outbox_settings, outbox_watermark, outbox_schema_version, outbox_replays, '
        'outbox_ownership, outbox_types';
    -- Functions have their arguments: an application may have others of these names.
    batch constant text := 'outbox_append_batch(text[], text[], bytea[], uuid[], bigint[], jsonb[], text[], text[], bigint[], text[], text[], boolean[], timestamptz[], timestamptz[])';
    one record;
    grants text[];
    statement text;
BEGIN
    IF to_regclass(format('%I.outbox_settings', target)) IS NULL THEN
        RAISE NOTICE 'schema % holds no outbox yet: run this again after `postrider migrate up`', target;
        RETURN;
    END IF;
    FOR one IN SELECT c.oid::regclass AS name FROM pg_class AS c
                WHERE c.relnamespace = to_regnamespace(quote_ident(target)) AND c.relkind IN ('r', 'p', 'v')
                  AND (c.relname = ANY (string_to_array(read_tables, ', ')) -- others are the application's
                       OR c.relname IN ('events', 'outbox_stream_heads', 'outbox_dedupe_keys', 'outbox_former_partitions', 'outbox_replay_sequences')) LOOP
        EXECUTE format('REVOKE ALL ON %s FROM postrider_producer, postrider_worker, postrider_monitor, postrider_operator', one.name);
    END LOOP;

    -- Where its sequence stands behind the table is named; nobody draws a number by that.
    FOR one IN SELECT d.objid::regclass AS name FROM pg_depend AS d JOIN pg_class AS c ON c.oid = d.refobjid JOIN pg_class AS s ON s.oid = d.objid
                WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i') AND s.relkind = 'S'
                  AND c.relnamespace = to_regnamespace(quote_ident(target)) AND c.relname = 'events' LOOP
        EXECUTE format('GRANT SELECT ON SEQUENCE %s TO postrider_worker, postrider_monitor, postrider_operator', one.name);
    END LOOP;

    grants := ARRAY[
        'GRANT EXECUTE ON FUNCTION outbox_append(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz),
               outbox_append_one(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz),
               outbox_append_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz),
               outbox_append_one_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz),
               ' || batch || ',
               outbox_append_adopted(text, text, uuid, text, text, text, bytea, text, boolean, text, text, timestamptz),
               outbox_without_enqueue() TO postrider_producer',

        'GRANT SELECT ON events, outbox_settings, outbox_schema_version TO postrider_worker',
        'GRANT UPDATE (generation, regressed) ON outbox_settings TO postrider_worker',
        'GRANT SELECT, INSERT, UPDATE, DELETE ON outbox, outbox_ready, outbox_parked, outbox_deliveries,
               outbox_workers, outbox_throughput TO postrider_worker',
        'GRANT SELECT, UPDATE ON outbox_partitions, outbox_former_partitions, outbox_watermark TO postrider_worker',
        'GRANT SELECT, UPDATE, DELETE ON outbox_dedupe_keys TO postrider_worker',
        'GRANT SELECT, INSERT, DELETE ON outbox_ownership TO postrider_worker',
        'GRANT INSERT ON outbox_audit TO postrider_worker',

        'GRANT SELECT ON ' || read_tables || ' TO postrider_monitor, postrider_operator',
        'GRANT SELECT (sequence, recorded_at) ON events TO postrider_monitor',

        'GRANT SELECT (sequence, event_id, stream_id, stream_version, event_type, topic, tenant_id,
               metadata, audit_only, occurred_at, recorded_at, routing_key) ON events TO postrider_operator',
        'GRANT INSERT, UPDATE, DELETE ON outbox TO postrider_operator',
        'GRANT INSERT, UPDATE ON outbox_replays TO postrider_operator',
        'GRANT SELECT, INSERT, DELETE ON outbox_replay_sequences TO postrider_operator',
        'GRANT INSERT ON outbox_deliveries, outbox_audit TO postrider_operator',
        'GRANT INSERT, UPDATE ON outbox_throughput TO postrider_operator',
        'GRANT INSERT, UPDATE, DELETE ON outbox_types TO postrider_operator',
        'GRANT EXECUTE ON FUNCTION outbox_schema_problem(jsonb) TO postrider_operator',
        'GRANT UPDATE (paused_at, updated_at) ON outbox_partitions TO postrider_operator',
        'GRANT UPDATE (drain_requested_at) ON outbox_workers TO postrider_operator'
    ];
    -- Nothing is called while the path is another.
    PERFORM pg_catalog.set_config('search_path', format('%I, pg_temp', target), true);
    FOREACH statement IN ARRAY grants LOOP
        EXECUTE statement;
    END LOOP;
    EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || batch || ' FROM postrider_worker';
    IF coalesce(current_setting('postrider.canary', true), '') = 'on' THEN
        EXECUTE 'GRANT EXECUTE ON FUNCTION ' || batch || ' TO postrider_worker';
    END IF;
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
END $$;

DO $$
DECLARE
    target constant text := coalesce(nullif(current_setting('postrider.schema', true), ''), 'public');
    name regclass;
    called text;
BEGIN
    IF to_regclass(format('%I.inbox_schema_version', target)) IS NULL THEN
        RETURN; -- no inboxes here
    END IF;
    FOR name IN SELECT c.oid FROM pg_class AS c JOIN pg_class AS v ON v.relowner = c.relowner -- what others made is not the inbox's
                 WHERE v.oid = to_regclass(format('%I.inbox_schema_version', target)) AND c.relnamespace = v.relnamespace AND c.relkind = 'r'
                   AND c.relname IN ('inbox_streams', 'inbox_records', 'inbox_parked', 'inbox_senders', 'inbox_calls', 'inbox_callers',
                       'inbox_consumers', 'inbox_lanes', 'inbox_readers', 'inbox_malformed', 'inbox_schema_version') LOOP
        EXECUTE format('REVOKE ALL ON %1$s FROM postrider_consumer; GRANT SELECT, INSERT, UPDATE, DELETE ON %1$s TO postrider_consumer', name);
    END LOOP;
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON %I.inbox_schema_version FROM postrider_consumer', target);
    FOREACH called IN ARRAY ARRAY[
        'inbox_decide(text, boolean, boolean, text[], bigint[], uuid[], bigint[], int[], int[], bigint[])',
        'inbox_record(bigint[], bigint[], uuid[], bigint[], int[], int[], bigint[], bytea[], text)',
        'inbox_park(text, bigint, bigint, uuid, text, int, interval, text, text, bigint, bytea, bytea)', 'inbox_unpark(bigint, bigint)',
        'inbox_claim(text, uuid, boolean, float8, float8, float8)', 'inbox_parse(jsonb)',
        'inbox_receive(text, text, bigint, jsonb, bytea, bigint, boolean, text, boolean, int, interval, interval)',
        'inbox_begin(text, text, bigint, jsonb, bytea, bigint, boolean)',
        'inbox_failed(text, text, bigint, jsonb, bytea, text, bigint, boolean, boolean, int, interval, interval)',
        'inbox_done(text, jsonb, bytea)', 'inbox_next(text, uuid, int, interval, interval)'] LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I.%s TO postrider_consumer', target, called);
    END LOOP;
END $$;

RESET search_path;
