-- Appending many events with one statement per table. Arrays go in, one row per
-- event comes out, in the order of the input; partition_key is NULL where no pointer
-- row was written. An array may be NULL or shorter than stream_ids where its values
-- may be NULL.
--
-- routing_hashes are the 64 bits of outbox_xxhash64(routing key) as the caller
-- computed them; where NULL they are computed here. Several events of one stream
-- get consecutive versions; an expected version is compared with the version
-- right before its event. SQLSTATEs as for outbox_append.
--
-- Streams are locked in one order, so two batches cannot deadlock on them; two
-- batches in one transaction can, like any two row locks. A batch of more than 64
-- events locks only the streams that have an event without expected version: the
-- lock table is shared memory. Of two such batches that expect the same version
-- the second fails with 23505 instead of OB001.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_append_batch(
    stream_ids text[], event_types text[], payloads bytea[], event_ids uuid[] DEFAULT NULL,
    expected_versions bigint[] DEFAULT NULL, event_metadata jsonb[] DEFAULT NULL, topics text[] DEFAULT NULL,
    partition_keys text[] DEFAULT NULL, routing_hashes bigint[] DEFAULT NULL, dedupe_keys text[] DEFAULT NULL,
    tenant_ids text[] DEFAULT NULL, published boolean[] DEFAULT NULL, not_before timestamptz[] DEFAULT NULL,
    occurred timestamptz[] DEFAULT NULL)
RETURNS TABLE (sequence bigint, event_id uuid, stream_version bigint, partition_key smallint, duplicate boolean, enqueued boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {schema}, pg_temp
SET plan_cache_mode = force_generic_plan AS $function$
#variable_conflict use_column
DECLARE
    problem    text;
    too_large  boolean;
    conflict   bigint; -- the position of the first event whose expectation fails
    duplicates boolean[]; -- NULL while no event of the batch has a dedupe key
    versions   bigint[];
    sequences  bigint[];
    ids        uuid[];
    one        record;
    started    timestamptz := clock_timestamp();
BEGIN
    IF cardinality(stream_ids) = 1 THEN -- a third of the time
        one := {schema}.outbox_append_event(stream_ids[1], event_types[1], payloads[1], expected_versions[1], event_metadata[1],
            coalesce(topics[1], 'default'), partition_keys[1], routing_hashes[1], dedupe_keys[1], tenant_ids[1],
            coalesce(published[1], true), not_before[1], event_ids[1], occurred[1]);
        sequence := one.appended;
        event_id := one.id;
        stream_version := one.version;
        partition_key := one.placed;
        duplicate := one.duplicate;
        enqueued := one.enqueued;
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT format('event %s: %s', a.position, coalesce(p.problem, format('payload is %s bytes, the limit is %s', a.size, s.max_payload_bytes))),
           p.problem IS NULL
      INTO problem, too_large
      FROM {schema}.outbox_settings AS s
     CROSS JOIN (SELECT u.position, octet_length(u.payload) AS size, u.stream, u.type, coalesce(u.topic, 'default') AS topic,
                        u.key, u.dedupe, u.tenant, u.expected, u.metadata
                   FROM unnest(stream_ids, event_types, topics, partition_keys, dedupe_keys, tenant_ids, expected_versions,
                               payloads, event_metadata)
                        WITH ORDINALITY AS u (stream, type, topic, key, dedupe, tenant, expected, payload, metadata, position)) AS a
     CROSS JOIN LATERAL (SELECT {schema}.outbox_event_problem(a.stream, a.type, a.topic, a.key, a.dedupe, a.tenant, a.expected,
                                                              a.size, a.metadata)) AS p (problem)
     WHERE p.problem IS NOT NULL OR a.size > s.max_payload_bytes
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = CASE WHEN too_large THEN '54000' ELSE '22023' END;
    END IF;

    IF EXISTS (SELECT FROM unnest(dedupe_keys) AS k WHERE k IS NOT NULL) THEN
        -- An event is a duplicate when its key was taken before, or by an earlier event of this batch.
        WITH asked AS MATERIALIZED (
               SELECT u.position, coalesce(u.topic, 'default') AS topic, u.key,
                      row_number() OVER (PARTITION BY coalesce(u.topic, 'default'), u.key ORDER BY u.position) AS nth
                 FROM unnest(stream_ids, topics, dedupe_keys) WITH ORDINALITY AS u (stream, topic, key, position)),
             fresh AS (
               INSERT INTO {schema}.outbox_dedupe_keys (topic, dedupe_key)
               SELECT asked.topic, asked.key FROM asked WHERE asked.key IS NOT NULL AND asked.nth = 1 ORDER BY 1, 2
               ON CONFLICT DO NOTHING
               RETURNING topic, dedupe_key)
        SELECT array_agg(asked.key IS NOT NULL AND (asked.nth > 1 OR fresh.dedupe_key IS NULL) ORDER BY asked.position)
          INTO duplicates
          FROM asked LEFT JOIN fresh ON fresh.topic = asked.topic AND fresh.dedupe_key = asked.key;
    END IF;

    PERFORM pg_advisory_xact_lock(k.key)
       FROM (SELECT DISTINCT hashtextextended(u.stream, '{schema}.events'::regclass::oid::bigint) AS key
               FROM unnest(stream_ids, expected_versions) AS u (stream, expected)
              WHERE u.expected IS NULL OR cardinality(stream_ids) <= 64
              ORDER BY 1 OFFSET 0) AS k;

    WITH added AS MATERIALIZED (
           SELECT u.position, u.stream, u.expected, coalesce(u.duplicate, false) AS duplicate,
                  row_number() OVER (PARTITION BY u.stream, coalesce(u.duplicate, false) ORDER BY u.position) AS nth
             FROM unnest(stream_ids, expected_versions, duplicates) WITH ORDINALITY AS u (stream, expected, duplicate, position)),
         streams AS MATERIALIZED (
           SELECT a.stream,
                  coalesce((SELECT max(e.stream_version) FROM {schema}.events AS e WHERE e.stream_id = a.stream), 0) AS version
             FROM added AS a WHERE a.nth = 1 AND NOT a.duplicate)
    SELECT array_agg(CASE WHEN NOT a.duplicate THEN s.version + a.nth END ORDER BY a.position),
           min(a.position) FILTER (WHERE NOT a.duplicate AND a.expected <> s.version + a.nth - 1)
      INTO versions, conflict
      FROM added AS a LEFT JOIN streams AS s ON s.stream = a.stream;
    IF conflict IS NOT NULL THEN
        PERFORM {schema}.outbox_version_conflict(stream_ids[conflict], expected_versions[conflict], versions[conflict] - 1);
    END IF;

    -- Identities are drawn here, in the order of the input, and nowhere else.
    WITH written AS (
           INSERT INTO {schema}.events (event_id, stream_id, stream_version, event_type, topic, payload, metadata,
                                        tenant_id, routing_key, audit_only, occurred_at)
           SELECT coalesce(u.id, gen_random_uuid()), u.stream, u.version, u.type, coalesce(u.topic, 'default'), u.payload, u.metadata,
                  u.tenant, nullif(u.key, u.stream), NOT coalesce(u.published, true), coalesce(u.occurred, clock_timestamp())
             FROM unnest(event_ids, stream_ids, versions, event_types, topics, payloads, event_metadata, tenant_ids,
                         partition_keys, published, occurred)
                  WITH ORDINALITY AS u (id, stream, version, type, topic, payload, metadata, tenant, key, published, occurred, position)
            WHERE u.version IS NOT NULL
            ORDER BY u.position
           RETURNING sequence, event_id)
    SELECT array_agg(w.sequence ORDER BY w.sequence), array_agg(w.event_id ORDER BY w.sequence)
      INTO sequences, ids FROM written AS w;

    IF true = ANY (duplicates) THEN -- back to one entry per event of the input
        SELECT array_agg(CASE WHEN n.version IS NOT NULL THEN sequences[n.nth] END ORDER BY n.position),
               array_agg(CASE WHEN n.version IS NOT NULL THEN ids[n.nth] END ORDER BY n.position)
          INTO sequences, ids
          FROM (SELECT u.position, u.version, count(u.version) OVER (ORDER BY u.position) AS nth
                  FROM unnest(versions) WITH ORDINALITY AS u (version, position)) AS n;
    END IF;
    IF duplicates IS NOT NULL THEN
        UPDATE {schema}.outbox_dedupe_keys AS d SET global_sequence = u.sequence
          FROM unnest(topics, dedupe_keys, sequences) AS u (topic, key, sequence)
         WHERE u.key IS NOT NULL AND u.sequence IS NOT NULL AND d.topic = coalesce(u.topic, 'default') AND d.dedupe_key = u.key;
    END IF;
    IF true = ANY (duplicates) THEN
        SELECT array_agg(coalesce(u.sequence, d.global_sequence) ORDER BY u.position),
               array_agg(coalesce(u.id, e.event_id) ORDER BY u.position),
               array_agg(coalesce(u.version, e.stream_version) ORDER BY u.position)
          INTO sequences, ids, versions
          FROM unnest(topics, dedupe_keys, sequences, ids, versions) WITH ORDINALITY AS u (topic, key, sequence, id, version, position)
          LEFT JOIN {schema}.outbox_dedupe_keys AS d
                 ON u.sequence IS NULL AND d.topic = coalesce(u.topic, 'default') AND d.dedupe_key = u.key
          LEFT JOIN {schema}.events AS e ON e.sequence = d.global_sequence;
        IF array_position(sequences, NULL) IS NOT NULL THEN
            RAISE EXCEPTION 'a dedupe key was removed by retention just now' USING ERRCODE = '40001', HINT = 'Retry the transaction.';
        END IF;
    END IF;

    -- The partition comes from the count that this very statement sees.
    RETURN QUERY
    WITH input AS MATERIALIZED (
           SELECT u.position, u.sequence, u.id, u.version, u.stream, coalesce(u.topic, 'default') AS topic,
                  {schema}.outbox_hash_partition(r.hash, s.partition_count) AS partition_key,
                  coalesce(u.duplicate, false) AS duplicate,
                  NOT coalesce(u.duplicate, false) AND coalesce(u.published, true) AS enqueued,
                  u.not_before, coalesce(u.not_before > started, false) AS later
             FROM unnest(sequences, ids, versions, stream_ids, topics, partition_keys, routing_hashes, duplicates, published, not_before)
                  WITH ORDINALITY AS u (sequence, id, version, stream, topic, key, hash, duplicate, published, not_before, position)
            CROSS JOIN LATERAL (SELECT coalesce(u.hash, {schema}.outbox_xxhash64(convert_to(coalesce(u.key, u.stream), 'UTF8')))
                                OFFSET 0) AS r (hash) -- the fence keeps the hash from being computed twice
            CROSS JOIN {schema}.outbox_settings AS s),
         ready AS (
           INSERT INTO {schema}.outbox_ready (global_sequence, partition_key, stream_id, topic)
           SELECT i.sequence, i.partition_key, i.stream, i.topic FROM input AS i
            WHERE i.enqueued AND NOT i.later ORDER BY i.partition_key, i.sequence),
         parked AS (
           INSERT INTO {schema}.outbox_parked (global_sequence, partition_key, parked, available_at, stream_id, topic)
           SELECT i.sequence, i.partition_key, true, i.not_before, i.stream, i.topic FROM input AS i
            WHERE i.enqueued AND i.later ORDER BY i.partition_key, i.sequence)
    SELECT i.sequence, i.id, i.version, CASE WHEN i.enqueued THEN i.partition_key END, i.duplicate, i.enqueued FROM input AS i ORDER BY i.position;
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_append_batch IS 'As outbox_append_bytes for many events; one result row per event, in the order of the input.';

REVOKE EXECUTE ON FUNCTION {schema}.outbox_append_batch FROM PUBLIC;

-- +goose Down
DROP FUNCTION {schema}.outbox_append_batch(text[], text[], bytea[], uuid[], bigint[], jsonb[], text[], text[], bigint[],
    text[], text[], boolean[], timestamptz[], timestamptz[]);
