-- What names mean is not for others to decide. PostgreSQL prefers a function whose
-- arguments match exactly, in whatever schema of the path, to a polymorphic or
-- variadic one in pg_catalog; so whoever may CREATE in a schema of the path runs
-- code with the rights of those who call. The path of the functions that others may
-- call is pg_catalog and nothing else, and everything of the outbox is named with
-- its schema. Those that only these call inherit it: a path costs 3 us a call.
--
-- A function with a path of its own is never put in line. Those of one expression,
-- which must be, have their bodies parsed here instead, once and for all.
--
-- outbox_append_batch locks streams in the order of their ids, which every producer
-- can keep to, and no longer in the order of a hash.

-- +goose Up
ALTER FUNCTION {schema}.outbox_append          SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION {schema}.outbox_append_bytes    SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION {schema}.outbox_append_batch    SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION {schema}.outbox_partition       SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION {schema}.outbox_xxhash64        SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION {schema}.outbox_without_enqueue SET search_path = pg_catalog, pg_temp;

CREATE OR REPLACE FUNCTION {schema}.outbox_hash_partition(hash bigint, partitions int) RETURNS smallint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ((((((hash >> 32) & 4294967295) % partitions) << 32) | (hash & 4294967295)) % partitions)::smallint;

CREATE OR REPLACE FUNCTION {schema}.outbox_bad_text(value text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN octet_length(value) NOT BETWEEN 1 AND 1024 OR value COLLATE "C" ~ E'^ | $|[\\u0001-\\u001f\\u007f-\\u009f]';

CREATE OR REPLACE FUNCTION {schema}.outbox_event_problem(stream_id text, event_type text, topic text, partition_key text,
    dedupe_key text, tenant_id text, expected_version bigint, payload_size int, metadata jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN stream_id IS NULL OR {schema}.outbox_bad_text(stream_id)
        THEN 'stream_id must be 1 to 1024 bytes without control characters or spaces at its ends'
    WHEN event_type IS NULL OR {schema}.outbox_bad_text(event_type)
        THEN 'event_type must be 1 to 1024 bytes without control characters or spaces at its ends'
    WHEN topic IS NULL OR {schema}.outbox_bad_text(topic)
        THEN 'topic must be 1 to 1024 bytes without control characters or spaces at its ends'
    WHEN {schema}.outbox_bad_text(partition_key)
        THEN 'partition_key must be 1 to 1024 bytes without control characters or spaces at its ends'
    WHEN {schema}.outbox_bad_text(dedupe_key)
        THEN 'dedupe_key must be 1 to 1024 bytes without control characters or spaces at its ends'
    WHEN {schema}.outbox_bad_text(tenant_id)
        THEN 'tenant_id must be 1 to 1024 bytes without control characters or spaces at its ends'
    WHEN expected_version < 0
        THEN 'expected_version must not be negative'
    WHEN payload_size IS NULL
        THEN 'payload must not be NULL'
    WHEN metadata IS NOT NULL
        THEN {schema}.outbox_metadata_problem(metadata)
END;

-- +goose StatementBegin
DO $migration$
DECLARE
    before constant text := $sql$
       FROM (SELECT DISTINCT hashtextextended(u.stream, '{schema}.events'::regclass::oid::bigint) AS key
               FROM unnest(stream_ids, expected_versions) AS u (stream, expected)
              WHERE u.expected IS NULL OR cardinality(stream_ids) <= 64
              ORDER BY 1 OFFSET 0) AS k;$sql$;
    after constant text := $sql$
       FROM (SELECT s.stream, hashtextextended(s.stream, '{schema}.events'::regclass::oid::bigint) AS key
               FROM (SELECT DISTINCT u.stream COLLATE "C" AS stream
                       FROM unnest(stream_ids, expected_versions) AS u (stream, expected)
                      WHERE u.expected IS NULL OR cardinality(stream_ids) <= 64) AS s
              ORDER BY s.stream OFFSET 0) AS k;$sql$;
    text text := pg_get_functiondef('{schema}.outbox_append_batch'::regproc);
BEGIN
    IF strpos(text, before) = 0 THEN
        RAISE EXCEPTION 'outbox_append_batch is not the one that this migration knows';
    END IF;
    EXECUTE replace(text, before, after);
END
$migration$;
-- +goose StatementEnd

-- +goose Down
-- The functions stay as they are: they do what those before them did.
SELECT 1;
