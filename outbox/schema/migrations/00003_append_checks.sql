-- What an event must look like. One text per violation, NULL when there is none.
-- The Go package outbox refuses the same things earlier, with the same limits.

-- +goose Up
-- A name or key: 1..1024 bytes without control characters, and without spaces at
-- its ends, which a message header would lose. NULL for NULL. A
-- SQL function of one expression is put in line (not when it is declared STRICT
-- and holds an OR), a plpgsql function would cost a call each time.
CREATE FUNCTION {schema}.outbox_bad_text(value text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$function$SELECT octet_length(value) NOT BETWEEN 1 AND 1024 OR value COLLATE "C" ~ E'^ | $|[\\u0001-\\u001f\\u007f-\\u009f]'$function$;

-- Metadata becomes message headers, so nothing in it may end a header line or
-- claim a name that the relay or the broker gives a meaning to.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_metadata_problem(metadata jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
DECLARE
    headers jsonb := metadata -> 'headers';
    field   text;
    value   jsonb;
    size    int := 0;
BEGIN
    IF jsonb_typeof(metadata) <> 'object' THEN
        RETURN 'metadata must be a JSON object';
    END IF;
    FOREACH field IN ARRAY '{traceparent,tracestate,correlation_id,causation_id}'::text[] LOOP
        value := metadata -> field;
        IF value IS NOT NULL AND (jsonb_typeof(value) <> 'string' OR {schema}.outbox_bad_text(value #>> '{}')) THEN
            RETURN format('metadata %I must be a string of 1 to 1024 bytes without control characters or spaces at its ends', field);
        END IF;
    END LOOP;
    IF headers IS NULL THEN
        RETURN NULL;
    ELSIF jsonb_typeof(headers) <> 'object' THEN
        RETURN 'metadata headers must be a JSON object of strings';
    END IF;
    FOR field, value IN SELECT h.key, h.value FROM jsonb_each(headers) AS h LOOP
        IF jsonb_typeof(value) <> 'string' THEN
            RETURN format('metadata header %s must be a string', quote_literal(field));
        ELSIF field !~ '^[!#$%&''*+.^_`|~0-9A-Za-z-]{1,128}$' THEN
            RETURN format('metadata header name %s must be 1 to 128 token characters', quote_literal(left(field, 128)));
        ELSIF lower(field) LIKE 'nats-%' OR lower(field) LIKE 'outbox-%' THEN
            RETURN format('metadata header name %s must not begin with Nats- or Outbox-', quote_literal(field));
        ELSIF (value #>> '{}') COLLATE "C" ~ E'[\\u0001-\\u0008\\u000a-\\u001f\\u007f]' THEN
            RETURN format('metadata header %s must not contain line breaks or control characters', quote_literal(field));
        END IF;
        size := size + octet_length(field) + octet_length(value #>> '{}');
    END LOOP;
    IF size > 32768 THEN
        RETURN 'metadata headers must not exceed 32768 bytes';
    END IF;
    RETURN NULL;
END
$function$;
-- +goose StatementEnd

CREATE FUNCTION {schema}.outbox_event_problem(stream_id text, event_type text, topic text, partition_key text,
    dedupe_key text, tenant_id text, expected_version bigint, payload_size int, metadata jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $function$
SELECT CASE
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
END$function$;

REVOKE EXECUTE ON FUNCTION {schema}.outbox_bad_text, {schema}.outbox_metadata_problem, {schema}.outbox_event_problem FROM PUBLIC;

-- +goose Down
DROP FUNCTION {schema}.outbox_event_problem(text, text, text, text, text, text, bigint, int, jsonb);
DROP FUNCTION {schema}.outbox_metadata_problem(jsonb);
DROP FUNCTION {schema}.outbox_bad_text(text);
