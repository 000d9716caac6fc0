-- The functions of the outbox: the partition of a key, what an event and its payload
-- must look like, appending, and the state of a row.
--
-- What names mean is not for others to decide. PostgreSQL prefers a function whose
-- arguments match exactly, in whatever schema of the path, to a polymorphic or
-- variadic one in pg_catalog; so whoever may CREATE in a schema of the path runs
-- code with the rights of those who call. The path of the functions that others may
-- call is pg_catalog and nothing else, and everything of the outbox is named with
-- its schema. Those that only these call inherit it: a path costs 3 us a call.
--
-- In the outbox's own schema others may have put functions beside these. A call that gives
-- every argument in its exact type (a NULL has none, 1 is an int) finds ours and no other.
--
-- A function with a path of its own is never put in line. Those of one expression,
-- which must be, have their bodies parsed here instead, once and for all.

-- +goose Up
-- XXH64 (seed 0) and the partition of a key, as the Go package partition computes
-- them. Specification: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
--
-- bigint raises an error on overflow where the algorithm wraps, so a product by a
-- constant is put together from three that fit. With a = a1 * 2^32 + a0 (a0
-- unsigned, a1 signed) and the constant c = c1 * 2^32 + c0 (both halves signed):
--
--   x := a0 * c0
--   a * c = (((x >> 32) + ((a0 * c1) & 4294967295) + a1 * c0) << 32) | (x & 4294967295)
--
-- << drops what leaves the 64 bits. An addition goes into the two halves of the
-- same expression (y is then the sum of the low halves). The products are spelled
-- out: a function call for each would cost more than the product. The primes:
--
--   P1 = 9E3779B185EBCA87   c1 = -1640531534   c0 = -2048144761
--   P2 = C2B2AE3D27D4EB4F   c1 = -1028477379   c0 =   668265295
--   P3 = 165667B19E3779F9   c1 =   374761394   c0 = -1640531463
--   P4 = 85EBCA77C2B2AE63   c1 = -2048144776   c0 = -1028477341
--   P5 = 27D4EB2F165667C5   c1 =   668265263   c0 =   374761413

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_xxhash64(data bytea) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    size int := octet_length(data);
    i    int := 0;
    h    bigint;
    k    bigint;
    x    bigint;
    y    bigint;
    v1   bigint := 6983438078262162902; -- P1 + P2
    v2   bigint := -4417276706812531889; -- P2
    v3   bigint := 0;
    v4   bigint := 7046029288634856825; -- -P1
BEGIN
    IF size < 32 THEN
        h := 2870177450012600261 + size; -- P5
    ELSE
        data := data || ''::bytea; -- a value that is stored compressed is expanded once
        WHILE i + 32 <= size LOOP
            -- v1 = rotl(v1 + lane * P2, 31) * P1
            k := ((get_byte(data, i) | (get_byte(data, i + 1) << 8) | (get_byte(data, i + 2) << 16) | (get_byte(data, i + 3) << 24))::bigint & 4294967295)
              | ((get_byte(data, i + 4) | (get_byte(data, i + 5) << 8) | (get_byte(data, i + 6) << 16) | (get_byte(data, i + 7) << 24))::bigint << 32);
            x := (k & 4294967295) * 668265295;
            y := (x & 4294967295) + (v1 & 4294967295);
            k := (((x >> 32) + (((k & 4294967295) * (-1028477379)) & 4294967295) + (k >> 32) * 668265295 + (v1 >> 32) + (y >> 32)) << 32) | (y & 4294967295);
            v1 := (k << 31) | ((k >> 33) & 2147483647);
            x := (v1 & 4294967295) * (-2048144761);
            v1 := (((x >> 32) + (((v1 & 4294967295) * (-1640531534)) & 4294967295) + (v1 >> 32) * (-2048144761)) << 32) | (x & 4294967295);
            i := i + 8;
            -- v2 = rotl(v2 + lane * P2, 31) * P1
            k := ((get_byte(data, i) | (get_byte(data, i + 1) << 8) | (get_byte(data, i + 2) << 16) | (get_byte(data, i + 3) << 24))::bigint & 4294967295)
              | ((get_byte(data, i + 4) | (get_byte(data, i + 5) << 8) | (get_byte(data, i + 6) << 16) | (get_byte(data, i + 7) << 24))::bigint << 32);
            x := (k & 4294967295) * 668265295;
            y := (x & 4294967295) + (v2 & 4294967295);
            k := (((x >> 32) + (((k & 4294967295) * (-1028477379)) & 4294967295) + (k >> 32) * 668265295 + (v2 >> 32) + (y >> 32)) << 32) | (y & 4294967295);
            v2 := (k << 31) | ((k >> 33) & 2147483647);
            x := (v2 & 4294967295) * (-2048144761);
            v2 := (((x >> 32) + (((v2 & 4294967295) * (-1640531534)) & 4294967295) + (v2 >> 32) * (-2048144761)) << 32) | (x & 4294967295);
            i := i + 8;
            -- v3 = rotl(v3 + lane * P2, 31) * P1
            k := ((get_byte(data, i) | (get_byte(data, i + 1) << 8) | (get_byte(data, i + 2) << 16) | (get_byte(data, i + 3) << 24))::bigint & 4294967295)
              | ((get_byte(data, i + 4) | (get_byte(data, i + 5) << 8) | (get_byte(data, i + 6) << 16) | (get_byte(data, i + 7) << 24))::bigint << 32);
            x := (k & 4294967295) * 668265295;
            y := (x & 4294967295) + (v3 & 4294967295);
            k := (((x >> 32) + (((k & 4294967295) * (-1028477379)) & 4294967295) + (k >> 32) * 668265295 + (v3 >> 32) + (y >> 32)) << 32) | (y & 4294967295);
            v3 := (k << 31) | ((k >> 33) & 2147483647);
            x := (v3 & 4294967295) * (-2048144761);
            v3 := (((x >> 32) + (((v3 & 4294967295) * (-1640531534)) & 4294967295) + (v3 >> 32) * (-2048144761)) << 32) | (x & 4294967295);
            i := i + 8;
            -- v4 = rotl(v4 + lane * P2, 31) * P1
            k := ((get_byte(data, i) | (get_byte(data, i + 1) << 8) | (get_byte(data, i + 2) << 16) | (get_byte(data, i + 3) << 24))::bigint & 4294967295)
              | ((get_byte(data, i + 4) | (get_byte(data, i + 5) << 8) | (get_byte(data, i + 6) << 16) | (get_byte(data, i + 7) << 24))::bigint << 32);
            x := (k & 4294967295) * 668265295;
            y := (x & 4294967295) + (v4 & 4294967295);
            k := (((x >> 32) + (((k & 4294967295) * (-1028477379)) & 4294967295) + (k >> 32) * 668265295 + (v4 >> 32) + (y >> 32)) << 32) | (y & 4294967295);
            v4 := (k << 31) | ((k >> 33) & 2147483647);
            x := (v4 & 4294967295) * (-2048144761);
            v4 := (((x >> 32) + (((v4 & 4294967295) * (-1640531534)) & 4294967295) + (v4 >> 32) * (-2048144761)) << 32) | (x & 4294967295);
            i := i + 8;
        END LOOP;
        -- h = rotl(v1, 1) + rotl(v2, 7) + rotl(v3, 12) + rotl(v4, 18), then each v merged in
        x := (v1 << 1) | ((v1 >> 63) & 1);
        y := (v2 << 7) | ((v2 >> 57) & 127);
        h := (v3 << 12) | ((v3 >> 52) & 4095);
        k := (v4 << 18) | ((v4 >> 46) & 262143);
        h := (((x >> 32) + (y >> 32) + (h >> 32) + (k >> 32) + (((x & 4294967295) + (y & 4294967295) + (h & 4294967295) + (k & 4294967295)) >> 32)) << 32)
          | (((x & 4294967295) + (y & 4294967295) + (h & 4294967295) + (k & 4294967295)) & 4294967295);
        FOREACH k IN ARRAY ARRAY[v1, v2, v3, v4] LOOP
            -- h = (h ^ (rotl(v * P2, 31) * P1)) * P1 + P4
            x := (k & 4294967295) * 668265295;
            k := (((x >> 32) + (((k & 4294967295) * (-1028477379)) & 4294967295) + (k >> 32) * 668265295) << 32) | (x & 4294967295);
            k := (k << 31) | ((k >> 33) & 2147483647);
            x := (k & 4294967295) * (-2048144761);
            k := (((x >> 32) + (((k & 4294967295) * (-1640531534)) & 4294967295) + (k >> 32) * (-2048144761)) << 32) | (x & 4294967295);
            h := h # k;
            x := (h & 4294967295) * (-2048144761);
            y := (x & 4294967295) + 3266489955;
            h := (((x >> 32) + (((h & 4294967295) * (-1640531534)) & 4294967295) + (h >> 32) * (-2048144761) + 2246822519 + (y >> 32)) << 32) | (y & 4294967295);
        END LOOP;
        y := (h & 4294967295) + size;
        h := (((h >> 32) + (y >> 32)) << 32) | (y & 4294967295);
    END IF;
    WHILE i + 8 <= size LOOP
        -- h = rotl(h ^ (rotl(lane * P2, 31) * P1), 27) * P1 + P4
        k := ((get_byte(data, i) | (get_byte(data, i + 1) << 8) | (get_byte(data, i + 2) << 16) | (get_byte(data, i + 3) << 24))::bigint & 4294967295)
          | ((get_byte(data, i + 4) | (get_byte(data, i + 5) << 8) | (get_byte(data, i + 6) << 16) | (get_byte(data, i + 7) << 24))::bigint << 32);
        x := (k & 4294967295) * 668265295;
        k := (((x >> 32) + (((k & 4294967295) * (-1028477379)) & 4294967295) + (k >> 32) * 668265295) << 32) | (x & 4294967295);
        k := (k << 31) | ((k >> 33) & 2147483647);
        x := (k & 4294967295) * (-2048144761);
        k := (((x >> 32) + (((k & 4294967295) * (-1640531534)) & 4294967295) + (k >> 32) * (-2048144761)) << 32) | (x & 4294967295);
        k := h # k;
        h := (k << 27) | ((k >> 37) & 134217727);
        x := (h & 4294967295) * (-2048144761);
        y := (x & 4294967295) + 3266489955;
        h := (((x >> 32) + (((h & 4294967295) * (-1640531534)) & 4294967295) + (h >> 32) * (-2048144761) + 2246822519 + (y >> 32)) << 32) | (y & 4294967295);
        i := i + 8;
    END LOOP;
    IF i + 4 <= size THEN
        -- h = rotl(h ^ (lane * P1), 23) * P2 + P3
        k := (get_byte(data, i) | (get_byte(data, i + 1) << 8) | (get_byte(data, i + 2) << 16) | (get_byte(data, i + 3) << 24))::bigint & 4294967295;
        x := (k & 4294967295) * (-2048144761);
        k := (((x >> 32) + (((k & 4294967295) * (-1640531534)) & 4294967295) + (k >> 32) * (-2048144761)) << 32) | (x & 4294967295);
        k := h # k;
        h := (k << 23) | ((k >> 41) & 8388607);
        x := (h & 4294967295) * 668265295;
        y := (x & 4294967295) + 2654435833;
        h := (((x >> 32) + (((h & 4294967295) * (-1028477379)) & 4294967295) + (h >> 32) * 668265295 + 374761393 + (y >> 32)) << 32) | (y & 4294967295);
        i := i + 4;
    END IF;
    WHILE i < size LOOP
        -- h = rotl(h ^ (byte * P5), 11) * P1
        k := get_byte(data, i);
        x := (k & 4294967295) * 374761413;
        k := (((x >> 32) + (((k & 4294967295) * 668265263) & 4294967295) + (k >> 32) * 374761413) << 32) | (x & 4294967295);
        k := h # k;
        h := (k << 11) | ((k >> 53) & 2047);
        x := (h & 4294967295) * (-2048144761);
        h := (((x >> 32) + (((h & 4294967295) * (-1640531534)) & 4294967295) + (h >> 32) * (-2048144761)) << 32) | (x & 4294967295);
        i := i + 1;
    END LOOP;
    -- the final mix: h ^= h >> 33, * P2, h ^= h >> 29, * P3, h ^= h >> 32
    h := h # ((h >> 33) & 2147483647);
    x := (h & 4294967295) * 668265295;
    h := (((x >> 32) + (((h & 4294967295) * (-1028477379)) & 4294967295) + (h >> 32) * 668265295) << 32) | (x & 4294967295);
    h := h # ((h >> 29) & 34359738367);
    x := (h & 4294967295) * (-1640531463);
    h := (((x >> 32) + (((h & 4294967295) * 374761394) & 4294967295) + (h >> 32) * (-1640531463)) << 32) | (x & 4294967295);
    RETURN h # ((h >> 32) & 4294967295);
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_xxhash64(bytea) IS 'XXH64, seed 0; the 64 bits are returned as a signed bigint.';

-- The unsigned remainder of a hash that is stored signed. Give it variables or
-- columns: the planner puts it in line only when repeating the arguments is cheap.
CREATE FUNCTION {schema}.outbox_hash_partition(hash bigint, partitions int) RETURNS smallint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ((((((hash >> 32) & 4294967295) % partitions) << 32) | (hash & 4294967295)) % partitions)::smallint;

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_partition(key text, partitions int) RETURNS smallint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    hash bigint := {schema}.outbox_xxhash64(convert_to(key, 'UTF8'));
BEGIN
    IF partitions NOT BETWEEN 1 AND 32767 THEN
        RAISE EXCEPTION 'partitions must be 1..32767, got %', partitions USING ERRCODE = '22023';
    END IF;
    RETURN {schema}.outbox_hash_partition(hash, partitions);
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_partition(text, int) IS
    'The partition of a key: XXH64 of its UTF-8 bytes, unsigned, modulo the number of partitions.';

-- What an event must look like. One text per violation, NULL when there is none.
-- The Go package outbox refuses the same things earlier, with the same limits.

-- Whether the database's encoding is UTF8. A database keeps its encoding; a dump that is restored in another one is asked there.
CREATE FUNCTION {schema}.outbox_utf8() RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN getdatabaseencoding() = 'UTF8';

-- In a database of another encoding: whether a text has C1 controls, has not fewest to most bytes of UTF-8, or has what UTF-8 has no place
-- for, and no worker could read. A pattern would take the bytes 80 to 9f for controls, which are letters in many encodings.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_bad_utf8(value text, fewest int, most int) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
DECLARE
    bytes bytea;
BEGIN
    bytes := convert_to(value, 'UTF8');
    RETURN octet_length(bytes) NOT BETWEEN fewest AND most OR encode(bytes, 'hex') ~ '^(..)*c2[89]';
EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN
    RETURN true;
END
$function$;
-- +goose StatementEnd

-- A name or key: 1..1024 bytes without control characters, and without spaces at
-- its ends, which a message header would lose. NULL for NULL. A
-- SQL function of one expression is put in line (not when it is declared STRICT
-- and holds an OR), a plpgsql function would cost a call each time.
CREATE FUNCTION {schema}.outbox_bad_text(value text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN {schema}.outbox_utf8()
    THEN octet_length(value) NOT BETWEEN 1 AND 1024 OR value COLLATE "C" ~ E'^ | $|[\\u0001-\\u001f\\u007f-\\u009f]'
    ELSE {schema}.outbox_bad_utf8(value, 1, 1024) OR value COLLATE "C" ~ E'^ | $|[\\u0001-\\u001f\\u007f]'
END;

-- The value of a header, which may be empty and have tabs.
CREATE FUNCTION {schema}.outbox_bad_value(value text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN {schema}.outbox_utf8()
    THEN value COLLATE "C" ~ E'[\\u0001-\\u0008\\u000a-\\u001f\\u007f-\\u009f]'
    ELSE {schema}.outbox_bad_utf8(value, 0, 32768) OR value COLLATE "C" ~ E'[\\u0001-\\u0008\\u000a-\\u001f\\u007f]'
END;

-- Years 1 to 9999: what Go, JSON and JavaScript can write. NULL for NULL.
CREATE FUNCTION {schema}.outbox_bad_time(value timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN value NOT BETWEEN timestamptz '0001-01-01 00:00:00+00' AND timestamptz '9999-12-31 23:59:59.999999+00';

-- Metadata becomes message headers, so nothing in it may end a header line or
-- claim a name that the relay or the broker gives a meaning to. Values of headers
-- hold no control characters of ISO 6429 (C1) either.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_metadata_problem(metadata jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
DECLARE
    headers jsonb := metadata -> 'headers';
    field   text COLLATE "C"; -- lower() of a locale may leave an I
    value   jsonb;
    size    int := 0;
    many    int := 0;
    names   text COLLATE "C" := ' ';
BEGIN
    IF jsonb_typeof(metadata) <> 'object' THEN
        RETURN 'metadata must be a JSON object';
    ELSIF pg_column_size(metadata) > 262144 THEN -- of that headers may be 32768
        RETURN 'metadata must not exceed 262144 bytes';
    END IF;
    FOREACH field IN ARRAY '{traceparent,tracestate,correlation_id,causation_id}'::text[] LOOP
        value := metadata -> field;
        IF value IS NOT NULL AND (jsonb_typeof(value) <> 'string' OR {schema}.outbox_bad_text(value #>> '{}')) THEN
            RETURN format('metadata %I must be a string of 1 to 1024 bytes of UTF-8 without control characters or spaces at its ends', field);
        END IF;
    END LOOP;
    IF NOT {schema}.outbox_utf8() THEN
        BEGIN
            PERFORM convert_to(metadata::text, 'UTF8');
        EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN
            RETURN 'metadata must not have characters that UTF-8 has no place for';
        END;
    END IF;
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
        ELSIF lower(field) IN ('status', 'description', 'kv-operation') THEN
            RETURN format('metadata header name %s is one that NATS clients take for the server''s', quote_literal(field));
        ELSIF strpos(names, ' ' || lower(field) || ' ') > 0 THEN
            RETURN format('metadata header name %s must not come twice, in whatever case', quote_literal(field));
        ELSIF {schema}.outbox_bad_value(value #>> '{}') THEN
            RETURN format('metadata header %s must not contain line breaks or control characters', quote_literal(field));
        END IF;
        names := names || lower(field) || ' ';
        many := many + 1;
        size := size + octet_length(field) + octet_length(value #>> '{}');
        IF size > 32768 THEN
            RETURN 'metadata headers must not exceed 32768 bytes';
        ELSIF many > 1000 THEN
            RETURN 'metadata headers must not be more than 1000';
        END IF;
    END LOOP;
    RETURN NULL;
END
$function$;
-- +goose StatementEnd

CREATE FUNCTION {schema}.outbox_event_problem(stream_id text, event_type text, topic text, partition_key text,
    dedupe_key text, tenant_id text, expected_version bigint, payload_size int, metadata jsonb,
    available_at timestamptz, occurred_at timestamptz, event_id uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN event_id = uuid '00000000-0000-0000-0000-000000000000'
        THEN 'event_id must not be the nil UUID, by which consumers know that there is none; leave it out for a new one'
    WHEN stream_id IS NULL OR {schema}.outbox_bad_text(stream_id)
        THEN 'stream_id must be 1 to 1024 bytes of UTF-8 without control characters or spaces at its ends'
    WHEN event_type IS NULL OR {schema}.outbox_bad_text(event_type)
        THEN 'event_type must be 1 to 1024 bytes of UTF-8 without control characters or spaces at its ends'
    WHEN topic IS NULL OR {schema}.outbox_bad_text(topic)
        THEN 'topic must be 1 to 1024 bytes of UTF-8 without control characters or spaces at its ends'
    WHEN {schema}.outbox_bad_text(partition_key)
        THEN 'partition_key must be 1 to 1024 bytes of UTF-8 without control characters or spaces at its ends'
    WHEN {schema}.outbox_bad_text(dedupe_key)
        THEN 'dedupe_key must be 1 to 1024 bytes of UTF-8 without control characters or spaces at its ends'
    WHEN {schema}.outbox_bad_text(tenant_id)
        THEN 'tenant_id must be 1 to 1024 bytes of UTF-8 without control characters or spaces at its ends'
    WHEN expected_version NOT BETWEEN 0 AND 9223372036854775806
        THEN 'expected_version must be 0 or more and leave room for the next version'
    WHEN payload_size IS NULL
        THEN 'payload must not be NULL'
    WHEN {schema}.outbox_bad_time(available_at)
        THEN 'available_at must be in the years 1 to 9999 (UTC)'
    WHEN {schema}.outbox_bad_time(occurred_at)
        THEN 'occurred_at must be in the years 1 to 9999 (UTC)'
    WHEN metadata IS NOT NULL
        THEN {schema}.outbox_metadata_problem(metadata)
END;

REVOKE EXECUTE ON FUNCTION
    {schema}.outbox_utf8(), {schema}.outbox_bad_utf8(text, int, int), {schema}.outbox_bad_text(text), {schema}.outbox_bad_value(text),
    {schema}.outbox_bad_time(timestamptz), {schema}.outbox_metadata_problem(jsonb),
    {schema}.outbox_event_problem(text, text, text, text, text, text, bigint, int, jsonb, timestamptz, timestamptz, uuid) FROM PUBLIC;

-- What payloads must look like: the part of JSON Schema 2020-12 that types can be
-- checked with. A schema that says more is refused when it is set, so nothing that
-- it says goes unchecked. These say what is wrong first, or NULL.

-- place is a JSON pointer into the schema.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_rules_problem(rules jsonb, defs jsonb, place text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $function$
DECLARE
    keyword text;
    rule    jsonb;
    kind    text;
    wrong   text;
    name    text;
    part    jsonb;
BEGIN
    IF jsonb_typeof(rules) = 'boolean' THEN
        RETURN NULL;
    ELSIF jsonb_typeof(rules) <> 'object' THEN
        RETURN format('%s must be a schema: an object, true or false', place);
    END IF;
    FOR keyword, rule IN SELECT r.key, r.value FROM jsonb_each(rules) AS r LOOP
        kind := jsonb_typeof(rule);
        wrong := NULL;
        CASE
        WHEN keyword IN ('title', 'description', '$comment') THEN
            IF kind <> 'string' THEN wrong := 'must be a string'; END IF;
        WHEN keyword IN ('deprecated', 'readOnly', 'writeOnly') THEN
            IF kind <> 'boolean' THEN wrong := 'must be true or false'; END IF;
        WHEN keyword IN ('default', 'const') THEN
            NULL;
        WHEN keyword IN ('examples', 'enum') THEN
            IF kind <> 'array' OR keyword = 'enum' AND rule = '[]' THEN wrong := 'must be an array'; END IF;
        WHEN keyword = '$schema' AND place = '' THEN
            IF kind <> 'string' OR rule #>> '{}' !~ '^https://json-schema[.]org/draft/2020-12/schema#?$' THEN
                wrong := 'must be that of 2020-12, https://json-schema.org/draft/2020-12/schema';
            END IF;
        WHEN keyword = '$id' AND place = '' THEN
            IF kind <> 'string' OR strpos(rule #>> '{}', '#') > 0 THEN wrong := 'must be a URI without fragment'; END IF;
        WHEN keyword = '$ref' THEN
            IF kind <> 'string' OR rule #>> '{}' !~ '^#/\$defs/' OR NOT defs ? substr(rule #>> '{}', 9) THEN
                wrong := 'must be #/$defs/ and the name of a definition that is there';
            ELSIF place <> '' AND rules ?| ARRAY['items', 'properties', 'additionalProperties'] THEN
                wrong := 'may not stand beside items, properties or additionalProperties below the root: each level would double the work';
            END IF;
        WHEN keyword IN ('type', 'required') THEN
            part := CASE WHEN kind = 'string' AND keyword = 'type' THEN jsonb_build_array(rule) ELSE rule END;
            IF jsonb_typeof(part) <> 'array' OR keyword = 'type' AND part = '[]' THEN
                wrong := 'must be an array';
            ELSIF (SELECT count(DISTINCT e.one) FILTER (WHERE jsonb_typeof(e.one) = 'string'
                           AND (keyword = 'required' OR e.one #>> '{}' IN ('null', 'boolean', 'object', 'array', 'number', 'string', 'integer'))) <> count(*)
                     FROM jsonb_array_elements(part) AS e (one)) THEN
                wrong := CASE keyword WHEN 'type' THEN 'must be types of JSON Schema, each once' ELSE 'must be strings, each once' END;
            END IF;
        WHEN keyword IN ('minLength', 'maxLength', 'minItems', 'maxItems') THEN
            IF kind <> 'number' OR rule #>> '{}' !~ '^[0-9]{1,9}([.]0+)?$' THEN wrong := 'must be a whole number, 0 to 999999999'; END IF;
        WHEN keyword IN ('minimum', 'maximum') THEN
            IF kind <> 'number' THEN wrong := 'must be a number'; END IF;
        WHEN keyword = 'pattern' THEN
            wrong := {schema}.outbox_pattern_problem(rule);
        WHEN keyword IN ('items', 'additionalProperties') THEN
            wrong := {schema}.outbox_rules_problem(rule, defs, place || '/' || keyword);
            IF wrong IS NOT NULL THEN RETURN wrong; END IF;
        WHEN keyword = 'properties' OR keyword = '$defs' AND place = '' THEN
            IF kind <> 'object' THEN
                wrong := 'must be an object';
            ELSE
                FOR name, part IN SELECT r.key, r.value FROM jsonb_each(rule) AS r LOOP
                    IF keyword = '$defs' AND name !~ '^[A-Za-z0-9._-]+$' THEN
                        RETURN '/$defs may have names of letters, digits, dot, _ and - alone';
                    END IF;
                    wrong := {schema}.outbox_rules_problem(part, defs, place || '/' || keyword || '/' || {schema}.outbox_pointer_token(name));
                    IF wrong IS NOT NULL THEN RETURN wrong; END IF;
                END LOOP;
            END IF;
        WHEN keyword IN ('$schema', '$id', '$defs') THEN
            wrong := 'may stand at the root alone';
        ELSE
            wrong := 'is not checked here: leave it out, or set the type without --check';
        END CASE;
        IF wrong IS NOT NULL THEN
            RETURN format('%s/%s %s', place, {schema}.outbox_pointer_token(keyword), wrong);
        END IF;
    END LOOP;
    RETURN NULL;
END
$function$;
-- +goose StatementEnd

-- One token of a JSON pointer (RFC 6901).
CREATE FUNCTION {schema}.outbox_pointer_token(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN replace(replace(name, '~', '~0'), '/', '~1');

-- Patterns are of the part of regular expressions that ECMA-262, PostgreSQL, RE2 and
-- others read alike, but for the dot, which here matches ends of lines, too: no look
-- around, no references, no classes but \d \w \D \W, no escapes but of signs and \n \r \t \f \v.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_pattern_problem(rule jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $function$
BEGIN
    IF jsonb_typeof(rule) <> 'string' THEN
        RETURN 'must be a string';
    ELSIF (rule #>> '{}') COLLATE "C" !~ '^(?![*])([^][(){}|*+?^$.\\]|\\[][(){}|*+?^$.\\/dDwWnrtfv]|\[\^?([^][\\]|\\[][(){}|*+?^$.\\/dDwWnrtfv-])+\]|\(\?:|\((?![?])|[)|*+?^$.]|\{[0-9]{1,3}(,([0-9]{1,3})?)?\})*$' THEN
        RETURN 'has more than is read alike everywhere: characters, sets in brackets, groups, |, ^, $, and the repetitions * + ? {n,m}';
    ELSIF (SELECT sum(greatest(r.times[1]::int, r.times[2]::int)) > 256 AND max(greatest(r.times[1]::int, r.times[2]::int)) < 256
             FROM regexp_matches(rule #>> '{}', '\{([0-9]+)(?:,([0-9]+)?)?\}', 'g') AS r (times)) THEN
        RETURN 'has repetitions {n,m} whose largest numbers sum up to more than 256, which would take seconds to match';
    ELSIF '' COLLATE "C" ~ (rule #>> '{}') THEN -- what cannot be read fails here
        RETURN NULL;
    END IF;
    RETURN NULL;
EXCEPTION
    WHEN invalid_regular_expression THEN
        RETURN SQLERRM;
END
$function$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_schema_problem(rules jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    defs    jsonb := coalesce(rules -> '$defs', '{}');
    problem text := {schema}.outbox_rules_problem(rules, defs, ''::text);
    name    text;
    hops    int;
BEGIN
    IF jsonb_typeof(rules) <> 'object' THEN
        RETURN 'the schema must be an object';
    ELSIF problem IS NOT NULL THEN
        RETURN problem;
    END IF;
    -- A definition that is another one, and that the first, would never be decided.
    FOR name IN SELECT k.name FROM jsonb_object_keys(defs) AS k (name) LOOP
        hops := 0;
        WHILE name IS NOT NULL LOOP
            IF hops > (SELECT count(*) FROM jsonb_object_keys(defs)) THEN
                RETURN format('/$defs/%s is a reference to itself', name);
            END IF;
            hops := hops + 1;
            name := substr(defs -> name ->> '$ref', 9);
        END LOOP;
    END LOOP;
    RETURN NULL;
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_schema_problem(jsonb) IS 'Why types cannot be checked with this JSON Schema; NULL: they can.';

ALTER TABLE {schema}.outbox_types ADD CONSTRAINT outbox_types_json_schema_check
    CHECK (CASE WHEN checked THEN {schema}.outbox_schema_problem(json_schema) IS NULL ELSE jsonb_typeof(json_schema) = 'object' END);

-- Where a value breaks a rule, as a JSON pointer, and the rule. Values are not told:
-- errors end up in logs. There is no query in it: each would cost as much as two values.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_mismatch(rules jsonb, defs jsonb, given jsonb, pointer text, depth int) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $function$
DECLARE
    kind    text := jsonb_typeof(given);
    rule    jsonb;
    words   text;
    number  numeric;
    members jsonb;
    names   jsonb;
    name    text;
    problem text[];
BEGIN
    IF jsonb_typeof(rules) = 'boolean' THEN
        RETURN CASE WHEN rules = 'false' THEN ARRAY[pointer, 'false: nothing may be here'] END;
    ELSIF depth > 64 THEN -- each level holds a copy of what is below it
        RETURN ARRAY[pointer, 'depth: nothing may be deeper than 64 levels'];
    END IF;
    IF kind = 'number' THEN
        number := given::numeric;
    END IF;
    rule := rules -> 'type';
    IF NOT rule ? kind AND (kind <> 'number' OR NOT rule ? 'integer' OR number <> trunc(number)) THEN
        RETURN ARRAY[pointer, 'type: must be ' || rule::text];
    END IF;
    rule := rules -> 'enum';
    FOR nth IN 1 .. coalesce(jsonb_array_length(rule), 0) LOOP
        EXIT WHEN rule -> nth - 1 = given;
        IF nth = jsonb_array_length(rule) THEN
            RETURN ARRAY[pointer, 'enum: must be one of ' || left(rule::text, 200)];
        END IF;
    END LOOP;
    IF rules -> 'const' <> given THEN
        RETURN ARRAY[pointer, 'const: must be ' || left((rules -> 'const')::text, 200)];
    END IF;
    CASE kind
    WHEN 'string' THEN
        words := given #>> '{}';
        IF char_length(words) < (rules ->> 'minLength')::numeric THEN
            RETURN ARRAY[pointer, format('minLength: must have at least %s characters', rules ->> 'minLength')];
        ELSIF char_length(words) > (rules ->> 'maxLength')::numeric THEN
            RETURN ARRAY[pointer, format('maxLength: must have at most %s characters', rules ->> 'maxLength')];
        ELSIF words COLLATE "C" !~ (rules ->> 'pattern') THEN
            RETURN ARRAY[pointer, 'pattern: must match ' || (rules ->> 'pattern')];
        END IF;
    WHEN 'number' THEN
        IF number < (rules ->> 'minimum')::numeric THEN
            RETURN ARRAY[pointer, format('minimum: must be at least %s', rules ->> 'minimum')];
        ELSIF number > (rules ->> 'maximum')::numeric THEN
            RETURN ARRAY[pointer, format('maximum: must be at most %s', rules ->> 'maximum')];
        END IF;
    WHEN 'array' THEN
        IF jsonb_array_length(given) < (rules ->> 'minItems')::numeric THEN
            RETURN ARRAY[pointer, format('minItems: must have at least %s items', rules ->> 'minItems')];
        ELSIF jsonb_array_length(given) > (rules ->> 'maxItems')::numeric THEN
            RETURN ARRAY[pointer, format('maxItems: must have at most %s items', rules ->> 'maxItems')];
        END IF;
        rule := rules -> 'items';
        IF rule IS NOT NULL THEN
            FOR nth IN 0 .. jsonb_array_length(given) - 1 LOOP
                problem := {schema}.outbox_mismatch(rule, defs, given -> nth, pointer || '/' || nth::text, depth + 1);
                IF problem IS NOT NULL THEN RETURN problem; END IF;
            END LOOP;
        END IF;
    WHEN 'object' THEN
        rule := rules -> 'required';
        FOR nth IN 0 .. coalesce(jsonb_array_length(rule), 0) - 1 LOOP
            IF NOT given ? (rule ->> nth) THEN
                RETURN ARRAY[pointer, 'required: must have ' || (rule -> nth)::text];
            END IF;
        END LOOP;
        members := coalesce(rules -> 'properties', '{}');
        names := jsonb_path_query_array(members, '$.keyvalue().key');
        FOR nth IN 0 .. jsonb_array_length(names) - 1 LOOP
            name := names ->> nth;
            IF given ? name THEN
                problem := {schema}.outbox_mismatch(members -> name, defs, given -> name, pointer || '/' || {schema}.outbox_pointer_token(name), depth + 1);
                IF problem IS NOT NULL THEN RETURN problem; END IF;
            END IF;
        END LOOP;
        rule := rules -> 'additionalProperties';
        IF rule <> 'true' THEN
            names := jsonb_path_query_array(given, '$.keyvalue().key');
            FOR nth IN 0 .. jsonb_array_length(names) - 1 LOOP
                name := names ->> nth;
                CONTINUE WHEN members ? name;
                problem := CASE WHEN rule = 'false' THEN ARRAY[pointer || '/' || {schema}.outbox_pointer_token(name), 'additionalProperties: may not be there']
                                ELSE {schema}.outbox_mismatch(rule, defs, given -> name, pointer || '/' || {schema}.outbox_pointer_token(name), depth + 1) END;
                IF problem IS NOT NULL THEN RETURN problem; END IF;
            END LOOP;
        END IF;
    ELSE
        NULL;
    END CASE;
    IF rules ? '$ref' THEN
        RETURN {schema}.outbox_mismatch(defs -> substr(rules ->> '$ref', 9), defs, given, pointer, depth);
    END IF;
    RETURN NULL;
END
$function$;
-- +goose StatementEnd

-- Refuses a payload. place is the event's in a batch, from 1.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_check_payload(checked_type text, rules jsonb, payload bytea, place bigint) RETURNS void
LANGUAGE plpgsql STABLE AS $function$
DECLARE
    given   jsonb;
    problem text[];
    largest bigint := (SELECT s.max_checked_bytes FROM {schema}.outbox_settings AS s);
BEGIN
    IF octet_length(payload) > largest THEN
        RAISE EXCEPTION '%payload of type % is % bytes, and % are checked at most', coalesce('event ' || place || ': ', ''), quote_literal(checked_type), octet_length(payload), largest
            USING ERRCODE = '54000', HINT = 'outbox_settings.max_checked_bytes is the limit for types that are checked.';
    END IF;
    BEGIN
        given := convert_from(payload, 'UTF8')::jsonb;
        rules := rules || '{}'; -- a value that is stored compressed is expanded once
        problem := {schema}.outbox_mismatch(rules, rules -> '$defs', given, ''::text, 0);
    EXCEPTION
        WHEN data_exception OR program_limit_exceeded THEN -- no JSON, or more than the server bears
            problem := ARRAY['', CASE WHEN given IS NULL THEN 'must be JSON that fits jsonb: ' ELSE 'cannot be checked: ' END || SQLERRM];
    END;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%payload of type % does not fit its schema at "%": %',
                        coalesce('event ' || place || ': ', ''), quote_literal(checked_type), left(problem[1], 1024), problem[2]
            USING ERRCODE = 'OB002',
                  DETAIL  = jsonb_build_object('type', checked_type, 'pointer', problem[1], 'rule', problem[2], 'position', coalesce(place, 1))::text,
                  HINT    = '`postrider types show` shows the schema.';
    END IF;
END
$function$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION
    {schema}.outbox_rules_problem(jsonb, jsonb, text), {schema}.outbox_pointer_token(text), {schema}.outbox_pattern_problem(jsonb),
    {schema}.outbox_schema_problem(jsonb), {schema}.outbox_mismatch(jsonb, jsonb, jsonb, text, int),
    {schema}.outbox_check_payload(text, jsonb, bytea, bigint) FROM PUBLIC;

-- Marks the transaction: what it appends from now on is recorded as audit-only,
-- and nothing is queued. The mark is the transaction's own id. A value that
-- anybody left in a session, which a pool hands to somebody else, is the id of no
-- running transaction and makes the next append fail instead of being silent.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_without_enqueue() RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $function$
    SELECT set_config('postrider.replaying', pg_current_xact_id()::text, true)
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_without_enqueue() IS 'From here to the end of this transaction appended events are recorded and never published.';

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
REVOKE EXECUTE ON FUNCTION {schema}.outbox_without_enqueue(), {schema}.outbox_is_replaying() FROM PUBLIC;

-- Appending one event. Public functions, for JSON and for bytes (an overload would
-- make the type of a quoted literal ambiguous), on a private one that
-- outbox_append_batch uses too, for a batch of one event.
--
-- The public functions run with their owner's rights and a fixed search_path; the
-- caller needs EXECUTE on them and USAGE on the schema, nothing on the tables.
-- Generic plans: the planner would otherwise plan the pointer row's INSERT anew
-- for every call, which doubles the time.
--
-- SQLSTATEs: OB001 expected_version differs from the stream's version (DETAIL is a
-- JSON object: stream, expected, actual); OB002 the payload does not fit the schema
-- of its type (DETAIL: type, pointer, rule, position); 22023 an argument is refused, named in
-- the text; 23505 the event_id exists, or another writer took the version while
-- not running READ COMMITTED; 40001 the partitions were resized since such a
-- transaction began, or, in a trigger, the stream got an event; 54000 the payload is larger than
-- outbox_settings.max_payload_bytes.

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_append_event(
    new_stream text, new_type text, new_payload bytea, expected bigint, new_metadata jsonb, new_topic text,
    new_key text, new_hash bigint, new_dedupe text, new_tenant text, new_publish boolean, not_before timestamptz,
    new_id uuid, new_occurred timestamptz,
    OUT appended bigint, OUT id uuid, OUT version bigint, OUT placed smallint, OUT duplicate boolean, OUT enqueued boolean)
LANGUAGE plpgsql AS $function$
DECLARE
    problem  text := {schema}.outbox_event_problem(new_stream, new_type, new_topic, new_key, new_dedupe, new_tenant,
                                                   expected, octet_length(new_payload), new_metadata, not_before, new_occurred, new_id);
    current  bigint;
    largest  bigint;
    rules    jsonb;
    in_parts boolean;
    known    bigint; -- the version that was found before
    kept     text; -- the key that the stream has
BEGIN
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = '22023';
    END IF;
    new_publish := new_publish AND NOT {schema}.outbox_is_replaying();
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
    -- Held before anything is looked up, so that a new part of events begins behind all that was (outbox_events_begin).
    LOCK TABLE ONLY {schema}.events IN ROW EXCLUSIVE MODE;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM {schema}.outbox_refuse_old_settings();
    END IF;
    -- Writers to one stream queue here. The version is read in a later statement, so
    -- that whoever waited sees what it waited for, and the next sequence is drawn
    -- after the previous version became visible. A trigger appends for as many rows as
    -- a statement has, more than the lock table holds: it queues at the version alone.
    IF pg_trigger_depth() = 0 AND pg_advisory_xact_lock(hashtextextended(new_stream, '{schema}.events'::regclass::oid::bigint)) IS NULL THEN
        NULL;
    END IF;
    LOOP
        SELECT coalesce(l.stream_version, (SELECT h.stream_version FROM {schema}.outbox_stream_heads AS h WHERE h.stream_id = new_stream), 0),
               l.key, s.max_payload_bytes, s.events_in_parts,
               (SELECT t.json_schema FROM {schema}.outbox_types AS t WHERE t.event_type = new_type AND t.checked)
          INTO current, kept, largest, in_parts, rules
          FROM {schema}.outbox_settings AS s
          LEFT JOIN LATERAL (SELECT e.stream_version, coalesce(e.routing_key, e.stream_id) AS key FROM {schema}.events AS e
                              WHERE e.stream_id = new_stream ORDER BY e.stream_version DESC LIMIT 1) AS l ON true;
        -- Two keys would put a stream's events into two partitions, and so out of their order. A trigger never fails its table's writers.
        IF kept <> new_key AND pg_trigger_depth() = 0 THEN
            PERFORM {schema}.outbox_refuse_key(new_stream, kept, new_key, NULL::bigint);
        ELSIF kept <> coalesce(new_key, new_stream) THEN
            new_key := kept;
            new_hash := NULL;
        END IF;
        IF octet_length(new_payload) > largest THEN
            RAISE EXCEPTION 'payload is % bytes, the limit is %', octet_length(new_payload), largest USING ERRCODE = '54000';
        END IF;
        IF rules IS NOT NULL AND known IS NULL THEN
            PERFORM {schema}.outbox_check_payload(new_type, rules, new_payload, NULL::bigint);
        END IF;
        IF expected <> current THEN
            PERFORM {schema}.outbox_version_conflict(new_stream, expected, current);
        END IF;
        IF in_parts AND new_id IS NOT NULL THEN
            PERFORM {schema}.outbox_refuse_ids(ARRAY[new_id]);
        END IF;
        -- The identity is drawn here and nowhere else: the watermark rests on it.
        -- Above READ COMMITTED, ON CONFLICT makes 40001 of a version that the snapshot does not see: what a trigger's writer retries.
        IF known IS DISTINCT FROM current
           AND (current_setting('transaction_isolation') = 'read committed' OR pg_trigger_depth() > 0 AND new_id IS NULL) THEN
            INSERT INTO {schema}.events (event_id, stream_id, stream_version, event_type, topic, payload, metadata,
                                         tenant_id, routing_key, audit_only, occurred_at)
            VALUES (coalesce(new_id, gen_random_uuid()), new_stream, current + 1, new_type, new_topic, new_payload, new_metadata,
                    new_tenant, nullif(new_key, new_stream), NOT new_publish, coalesce(new_occurred, clock_timestamp()))
            ON CONFLICT DO NOTHING -- waits for who took the version, and reads it anew
            RETURNING sequence, event_id, stream_version, false, NOT audit_only INTO appended, id, version, duplicate, enqueued;
            EXIT WHEN FOUND;
            known := current;
        ELSE -- nobody took the version, so that something else is there already: say which
            INSERT INTO {schema}.events (event_id, stream_id, stream_version, event_type, topic, payload, metadata,
                                         tenant_id, routing_key, audit_only, occurred_at)
            VALUES (coalesce(new_id, gen_random_uuid()), new_stream, current + 1, new_type, new_topic, new_payload, new_metadata,
                    new_tenant, nullif(new_key, new_stream), NOT new_publish, coalesce(new_occurred, clock_timestamp()))
            RETURNING sequence, event_id, stream_version, false, NOT audit_only INTO appended, id, version, duplicate, enqueued;
            EXIT;
        END IF;
    END LOOP;
    IF new_publish THEN -- the partition comes from the count that the inserting statement sees
        new_hash := coalesce(new_hash, {schema}.outbox_xxhash64(convert_to(coalesce(new_key, new_stream), 'UTF8')));
        IF not_before > clock_timestamp() THEN
            INSERT INTO {schema}.outbox_parked (global_sequence, partition_key, parked, available_at, scheduled_for, stream_id, topic)
            SELECT appended, {schema}.outbox_hash_partition(new_hash, s.partition_count), true, not_before, not_before, new_stream, new_topic
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

-- A stricter isolation sees the settings as its transaction began: after a resize it would put the event where nobody looks, and after a
-- part of events began it would not see the versions and ids before.
-- PostgreSQL refuses the lock (40001) of a row that was changed meanwhile; the tables are locked before, as a resize does it.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_refuse_old_settings() RETURNS void
LANGUAGE plpgsql AS $function$
BEGIN
    LOCK TABLE {schema}.outbox, {schema}.outbox_ready, {schema}.outbox_parked IN ROW EXCLUSIVE MODE;
    PERFORM FROM {schema}.outbox_settings FOR SHARE;
END
$function$;
-- +goose StatementEnd

-- What the unique constraint of each part of events says of its own, for all of them.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_refuse_ids(ids uuid[]) RETURNS void
LANGUAGE plpgsql AS $function$
DECLARE
    known uuid;
BEGIN
    SELECT e.event_id INTO known FROM {schema}.events AS e WHERE e.event_id = ANY (ids) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'duplicate key value violates unique constraint "events_event_id_key"'
            USING ERRCODE = '23505', CONSTRAINT = 'events_event_id_key', DETAIL = format('Key (event_id)=(%s) already exists.', known);
    END IF;
END
$function$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_refuse_key(stream text, kept text, given text, place bigint) RETURNS void
LANGUAGE plpgsql AS $function$
BEGIN
    RAISE EXCEPTION '%partition_key % is not that of stream %, %, and a stream with two keys loses its order', coalesce('event ' || place || ': ', ''),
                    quote_literal(given), quote_literal(stream), quote_literal(kept)
        USING ERRCODE = '22023', HINT = 'Leave partition_key out, which keeps the stream''s, or begin another stream.';
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
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    one record;
BEGIN
    one := {schema}.outbox_append_event(stream_id, event_type, payload, expected_version, metadata,
        coalesce(topic, 'default'), partition_key, NULL::bigint, dedupe_key, tenant_id, coalesce(publish, true),
        available_at, event_id, occurred_at);
    RETURN one.appended;
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_append_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz) IS
    'As outbox_append, with any bytes as payload.';

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_append(
    stream_id text, event_type text, payload jsonb, expected_version bigint DEFAULT NULL, metadata jsonb DEFAULT NULL,
    topic text DEFAULT 'default', partition_key text DEFAULT NULL, dedupe_key text DEFAULT NULL,
    tenant_id text DEFAULT NULL, publish boolean DEFAULT true, available_at timestamptz DEFAULT NULL,
    event_id uuid DEFAULT NULL, occurred_at timestamptz DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    one record;
BEGIN
    one := {schema}.outbox_append_event(stream_id, event_type, convert_to(payload::text, 'UTF8'), expected_version, metadata,
        coalesce(topic, 'default'), partition_key, NULL::bigint, dedupe_key, tenant_id, coalesce(publish, true),
        available_at, event_id, occurred_at);
    RETURN one.appended;
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_append(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz) IS
'Appends one event to its stream, queues it for publication, and returns its sequence.
expected_version: the version the stream must have now, 0 for a new stream; NULL accepts any and queues behind other writers of the stream.
topic, partition_key (default the stream''s, which is that of its first event, or stream_id): where it is published, and what decides its partition.
dedupe_key: unique per topic; when it is taken, nothing is written and the first event''s sequence is returned.
publish => false: recorded, never published. available_at: not published before that time.';

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_append_one(
    stream_id text, event_type text, payload jsonb, expected_version bigint DEFAULT NULL, metadata jsonb DEFAULT NULL,
    topic text DEFAULT 'default', partition_key text DEFAULT NULL, dedupe_key text DEFAULT NULL,
    tenant_id text DEFAULT NULL, publish boolean DEFAULT true, available_at timestamptz DEFAULT NULL,
    event_id uuid DEFAULT NULL, occurred_at timestamptz DEFAULT NULL,
    OUT sequence bigint, OUT stream_version bigint, OUT duplicate boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    one record;
BEGIN
    one := {schema}.outbox_append_event(stream_id, event_type, convert_to(payload::text, 'UTF8'), expected_version, metadata,
        coalesce(topic, 'default'), partition_key, NULL::bigint, dedupe_key, tenant_id, coalesce(publish, true),
        available_at, event_id, occurred_at);
    sequence := one.appended;
    stream_version := one.version;
    duplicate := one.duplicate;
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_append_one(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz) IS
    'As outbox_append; tells also the version, and whether the dedupe key was taken, so that sequence and version are the first event''s.';

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_append_one_bytes(
    stream_id text, event_type text, payload bytea, expected_version bigint DEFAULT NULL, metadata jsonb DEFAULT NULL,
    topic text DEFAULT 'default', partition_key text DEFAULT NULL, dedupe_key text DEFAULT NULL,
    tenant_id text DEFAULT NULL, publish boolean DEFAULT true, available_at timestamptz DEFAULT NULL,
    event_id uuid DEFAULT NULL, occurred_at timestamptz DEFAULT NULL,
    OUT sequence bigint, OUT stream_version bigint, OUT duplicate boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    one record;
BEGIN
    one := {schema}.outbox_append_event(stream_id, event_type, payload, expected_version, metadata,
        coalesce(topic, 'default'), partition_key, NULL::bigint, dedupe_key, tenant_id, coalesce(publish, true),
        available_at, event_id, occurred_at);
    sequence := one.appended;
    stream_version := one.version;
    duplicate := one.duplicate;
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_append_one_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz) IS
    'As outbox_append_one, with any bytes as payload.';

REVOKE EXECUTE ON FUNCTION
    {schema}.outbox_append_event(text, text, bytea, bigint, jsonb, text, text, bigint, text, text, boolean, timestamptz, uuid, timestamptz),
    {schema}.outbox_refuse_old_settings(), {schema}.outbox_refuse_ids(uuid[]), {schema}.outbox_refuse_key(text, text, text, bigint),
    {schema}.outbox_version_conflict(text, bigint, bigint),
    {schema}.outbox_append_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz),
    {schema}.outbox_append(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz),
    {schema}.outbox_append_one(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz),
    {schema}.outbox_append_one_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz) FROM PUBLIC;

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
-- Streams are locked in the order of their ids, which every producer can keep to, so
-- two batches cannot deadlock on them; two batches in one transaction can, like any
-- two row locks. A batch of more than 64
-- events locks only the streams that have an event without expected version: the
-- lock table is shared memory. Of two such batches that expect the same version
-- the second fails with 23505 instead of OB001.
--
-- ROWS 1: where a function promises more, a join that calls it for each row of a table
-- remembers its answers, and does not call it again for the same arguments, volatile
-- or not (Memoize, PostgreSQL 14 to 18): events would be lost.

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_append_batch(
    stream_ids text[], event_types text[], payloads bytea[], event_ids uuid[] DEFAULT NULL,
    expected_versions bigint[] DEFAULT NULL, event_metadata jsonb[] DEFAULT NULL, topics text[] DEFAULT NULL,
    partition_keys text[] DEFAULT NULL, routing_hashes bigint[] DEFAULT NULL, dedupe_keys text[] DEFAULT NULL,
    tenant_ids text[] DEFAULT NULL, published boolean[] DEFAULT NULL, not_before timestamptz[] DEFAULT NULL,
    occurred timestamptz[] DEFAULT NULL)
RETURNS TABLE (sequence bigint, event_id uuid, stream_version bigint, partition_key smallint, duplicate boolean, enqueued boolean)
LANGUAGE plpgsql SECURITY DEFINER ROWS 1
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $function$
#variable_conflict use_column
DECLARE
    problem    text;
    too_large  boolean;
    conflict   bigint; -- the position of the first event whose expectation fails
    duplicates boolean[]; -- NULL while no event of the batch has a dedupe key
    versions   bigint[];
    stray      bigint; -- the position of the first event with another key than its stream
    kept       text[];
    sequences  bigint[];
    ids        uuid[];
    one        record;
    started    timestamptz := clock_timestamp();
BEGIN
    IF cardinality(stream_ids) = 1 AND cardinality(event_types) = 1 AND cardinality(payloads) = 1 THEN -- a third of the time
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
                        u.key, u.dedupe, u.tenant, u.expected, u.metadata, u.not_before, u.occurred, u.id
                   FROM unnest(stream_ids, event_types, topics, partition_keys, dedupe_keys, tenant_ids, expected_versions,
                               payloads, event_metadata, not_before, occurred, event_ids)
                        WITH ORDINALITY AS u (stream, type, topic, key, dedupe, tenant, expected, payload, metadata, not_before, occurred, id, position)) AS a
     CROSS JOIN LATERAL (SELECT {schema}.outbox_event_problem(a.stream, a.type, a.topic, a.key, a.dedupe, a.tenant, a.expected,
                                                              a.size, a.metadata, a.not_before, a.occurred, a.id)) AS p (problem)
     WHERE p.problem IS NOT NULL OR a.size > s.max_payload_bytes
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = CASE WHEN too_large THEN '54000' ELSE '22023' END;
    END IF;

    IF EXISTS (SELECT FROM {schema}.outbox_types AS t WHERE t.checked) THEN
        PERFORM {schema}.outbox_check_payload(c.type, c.rules, c.payload, c.position)
           FROM (SELECT u.type, t.json_schema AS rules, u.payload, u.position
                   FROM unnest(event_types, payloads) WITH ORDINALITY AS u (type, payload, position)
                   JOIN {schema}.outbox_types AS t ON t.event_type = u.type AND t.checked
                  ORDER BY u.position OFFSET 0) AS c;
    END IF;

    IF {schema}.outbox_is_replaying() THEN
        published := array_fill(false, ARRAY[cardinality(stream_ids)]);
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

    LOCK TABLE ONLY {schema}.events IN ROW EXCLUSIVE MODE; -- as for one event
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM {schema}.outbox_refuse_old_settings();
    END IF;
    IF event_ids IS NOT NULL AND (SELECT s.events_in_parts FROM {schema}.outbox_settings AS s) THEN
        PERFORM {schema}.outbox_refuse_ids(ARRAY(SELECT u.id FROM unnest(event_ids, duplicates) AS u (id, duplicate) WHERE u.duplicate IS NOT TRUE));
    END IF;
    PERFORM pg_advisory_xact_lock(k.key)
       FROM (SELECT s.stream, hashtextextended(s.stream, '{schema}.events'::regclass::oid::bigint) AS key
               FROM (SELECT DISTINCT u.stream COLLATE "C" AS stream
                       FROM unnest(stream_ids, expected_versions) AS u (stream, expected)
                      WHERE u.expected IS NULL OR cardinality(stream_ids) <= 64) AS s
              ORDER BY s.stream OFFSET 0) AS k;

    WITH added AS MATERIALIZED (
           SELECT u.position, u.stream, u.expected, u.key, u.hash, coalesce(u.duplicate, false) AS duplicate,
                  row_number() OVER (PARTITION BY u.stream, coalesce(u.duplicate, false) ORDER BY u.position) AS nth
             FROM unnest(stream_ids, expected_versions, partition_keys, routing_hashes, duplicates)
                  WITH ORDINALITY AS u (stream, expected, key, hash, duplicate, position)
            WHERE u.stream IS NOT NULL),
         streams AS MATERIALIZED (
           SELECT a.stream, coalesce(l.key, a.key, a.stream) AS key,
                  coalesce(l.stream_version, (SELECT h.stream_version FROM {schema}.outbox_stream_heads AS h WHERE h.stream_id = a.stream), 0) AS version
             FROM added AS a
             LEFT JOIN LATERAL (SELECT e.stream_version, coalesce(e.routing_key, e.stream_id) AS key FROM {schema}.events AS e
                                 WHERE e.stream_id = a.stream ORDER BY e.stream_version DESC LIMIT 1) AS l ON true
            WHERE a.nth = 1 AND NOT a.duplicate)
    SELECT array_agg(CASE WHEN NOT a.duplicate THEN s.version + a.nth END ORDER BY a.position),
           min(a.position) FILTER (WHERE NOT a.duplicate AND a.expected <> s.version + a.nth - 1),
           min(a.position) FILTER (WHERE s.key <> a.key AND NOT a.duplicate),
           array_agg(s.key ORDER BY a.position),
           array_agg(CASE WHEN s.key = coalesce(a.key, a.stream) THEN a.hash END ORDER BY a.position)
      INTO versions, conflict, stray, kept, routing_hashes
      FROM added AS a LEFT JOIN streams AS s ON s.stream = a.stream;
    IF conflict IS NOT NULL THEN
        PERFORM {schema}.outbox_version_conflict(stream_ids[conflict], expected_versions[conflict], versions[conflict] - 1);
    ELSIF stray IS NOT NULL AND pg_trigger_depth() = 0 THEN
        PERFORM {schema}.outbox_refuse_key(stream_ids[stray], kept[stray], partition_keys[stray], stray);
    END IF;
    partition_keys := kept;

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
           INSERT INTO {schema}.outbox_parked (global_sequence, partition_key, parked, available_at, scheduled_for, stream_id, topic)
           SELECT i.sequence, i.partition_key, true, i.not_before, i.not_before, i.stream, i.topic FROM input AS i
            WHERE i.enqueued AND i.later ORDER BY i.partition_key, i.sequence)
    SELECT i.sequence, i.id, i.version, CASE WHEN i.enqueued THEN i.partition_key END, i.duplicate, i.enqueued FROM input AS i ORDER BY i.position;
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_append_batch(text[], text[], bytea[], uuid[], bigint[], jsonb[], text[], text[], bigint[], text[], text[], boolean[], timestamptz[], timestamptz[]) IS
    'As outbox_append_bytes for many events; one result row per event, in the order of the input.';

REVOKE EXECUTE ON FUNCTION
    {schema}.outbox_append_batch(text[], text[], bytea[], uuid[], bigint[], jsonb[], text[], text[], bigint[], text[], text[], boolean[], timestamptz[], timestamptz[]) FROM PUBLIC;

-- Rows of an outbox table that was adopted. Another relay bore more than a message can: what does not fit is made to, by rules that
-- `postrider adopt --help` tells, so that no INSERT fails for it.

-- A name without control characters and spaces at its ends, of at most 1024 bytes. Where it had to change it ends with ~ and its MD5.
CREATE FUNCTION {schema}.outbox_adopted_name(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN {schema}.outbox_bad_text(value)
    THEN ltrim(left(regexp_replace(value COLLATE "C", E'[\\u0001-\\u001f\\u007f-\\u009f]+', ' ', 'g'), 240)) || '~' || md5(value)
    ELSE value
END;

-- Headers of which each may be sent: names in token characters, X- before those that have a meaning to somebody, values in one line. What
-- is over 1000 or 32768 bytes in the order of names, or still no header, is left out.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_adopted_headers(headers jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $function$
    WITH given AS (
           SELECT h.key, coalesce(nullif(left(regexp_replace(h.key, '[^!#$%&''*+.^_`|~0-9A-Za-z-]', '-', 'g'), 100), ''), '-') AS name,
                  CASE WHEN {schema}.outbox_bad_value(h.value #>> '{}')
                       THEN regexp_replace((h.value #>> '{}') COLLATE "C", E'[\\u0001-\\u0008\\u000a-\\u001f\\u007f-\\u009f]+', ' ', 'g') ELSE h.value #>> '{}' END AS value
             FROM (SELECT e.key, e.value FROM jsonb_each(CASE WHEN jsonb_typeof(headers) = 'object' THEN headers ELSE '{}'::jsonb END) AS e
                    WHERE jsonb_typeof(e.value) <> 'null' ORDER BY e.key COLLATE "C" LIMIT 1000) AS h),
         free AS (
           SELECT g.key, g.value, CASE WHEN {schema}.outbox_metadata_problem(
                      jsonb_build_object('headers'::text, jsonb_build_object(g.name, 'v'::text))) IS NULL THEN g.name ELSE 'X-' || g.name END AS name
             FROM given AS g),
         told AS (
           SELECT f.key, f.value, f.name || CASE WHEN f.nth > 1 THEN '-' || f.nth::text ELSE '' END AS name
             FROM (SELECT f.key, f.value, f.name, row_number() OVER (PARTITION BY lower(f.name COLLATE "C") ORDER BY f.key COLLATE "C") AS nth FROM free AS f) AS f),
         fit AS (
           SELECT t.name, t.value, sum(octet_length(t.name) + octet_length(t.value)) OVER (ORDER BY t.name COLLATE "C") AS size
             FROM (SELECT DISTINCT ON (lower(o.name COLLATE "C")) o.name, o.value FROM told AS o ORDER BY lower(o.name COLLATE "C"), o.key COLLATE "C") AS t
            WHERE {schema}.outbox_metadata_problem(jsonb_build_object('headers'::text, jsonb_build_object(t.name, t.value))) IS NULL)
    SELECT jsonb_object_agg(f.name, f.value) FROM fit AS f WHERE f.size <= 32768
$function$;
-- +goose StatementEnd

-- Metadata of a row, or with of_headers its headers alone. Where they had to change, unfit holds the beginning of what they were.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_adopted_metadata(given text, of_headers boolean) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $function$
DECLARE
    whole jsonb;
    field text;
    unfit jsonb;
BEGIN
    BEGIN
        whole := CASE WHEN of_headers THEN jsonb_build_object('headers'::text, given::jsonb) ELSE given::jsonb END;
    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN -- no JSON, or none that jsonb can hold
        whole := '[]'::jsonb;
    END;
    IF given IS NULL OR whole IN ('null'::jsonb, '{"headers": null}'::jsonb) THEN
        RETURN NULL;
    ELSIF {schema}.outbox_metadata_problem(whole) IS NULL THEN
        RETURN whole;
    END IF;
    unfit := jsonb_build_object('unfit'::text, left(given, 4096));
    IF jsonb_typeof(whole) <> 'object' THEN
        RETURN unfit;
    END IF;
    FOREACH field IN ARRAY '{traceparent,tracestate,correlation_id,causation_id}'::text[] LOOP
        IF {schema}.outbox_metadata_problem(jsonb_build_object(field, whole -> field)) IS NOT NULL THEN
            whole := whole - field;
        END IF;
    END LOOP;
    whole := whole - 'headers'::text || coalesce(jsonb_build_object('headers'::text, {schema}.outbox_adopted_headers(whole -> 'headers'::text)), '{}'::jsonb) || unfit;
    whole := CASE WHEN whole -> 'headers'::text = 'null'::jsonb THEN whole - 'headers'::text ELSE whole END;
    RETURN CASE WHEN {schema}.outbox_metadata_problem(whole) IS NULL THEN whole ELSE unfit END;
END
$function$;
-- +goose StatementEnd

-- The event of a row. source is the table, row_key tells the row from its others, own_id is the row's uuid. A key may begin again, and a
-- uuid be another event's: id is the first of three that no event has. told: an event of this very row is there; changed: one of this row's
-- key and another content; shared: one of its uuid and content, of another source.
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_adopted_event(
    source text, row_key text, own_id uuid, stream text, type text, topic text, payload bytea, metadata text, of_headers boolean,
    tenant text, key text, occurred timestamptz,
    OUT event_stream text, OUT event_type text, OUT event_topic text, OUT event_metadata jsonb, OUT event_tenant text, OUT event_key text,
    OUT event_occurred timestamptz, OUT id uuid, OUT next_id uuid, OUT told boolean, OUT changed boolean, OUT shared boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    origin jsonb := jsonb_build_object('table'::text, source, 'row'::text,
        CASE WHEN octet_length(row_key) > 1024 THEN left(row_key, 240) || '~' || md5(row_key) ELSE row_key END);
    first  boolean;
    second boolean;
BEGIN
    event_stream := {schema}.outbox_adopted_name(stream);
    event_type := {schema}.outbox_adopted_name(type);
    event_topic := {schema}.outbox_adopted_name(coalesce(nullif(topic, ''), 'default'));
    event_tenant := {schema}.outbox_adopted_name(nullif(tenant, ''));
    event_key := {schema}.outbox_adopted_name(nullif(key, ''));
    event_metadata := coalesce({schema}.outbox_adopted_metadata(metadata, of_headers), '{}'::jsonb) || jsonb_build_object('adopted'::text, origin);
    IF {schema}.outbox_metadata_problem(event_metadata) IS NOT NULL THEN -- they were just below the limit
        event_metadata := jsonb_build_object('unfit'::text, left(metadata, 4096), 'adopted'::text, origin);
    END IF;
    event_occurred := CASE WHEN occurred IS NOT NULL
        THEN least(greatest(occurred, '0001-01-01 00:00:00Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz) END;
    id := coalesce(nullif(own_id, '00000000-0000-0000-0000-000000000000'::uuid), md5(source || ':' || row_key)::uuid);
    next_id := md5(concat_ws(E'\n', source, row_key, event_stream, event_type, event_topic, extract(epoch FROM event_occurred)::text,
                             encode(sha256(payload), 'hex')))::uuid;
    SELECT bool_or(f.mine AND (f.alike OR f.event_id = next_id)), bool_or(f.mine AND NOT f.alike), bool_or(f.alike AND NOT f.mine AND NOT f.here), bool_or(f.event_id = id), bool_or(f.event_id = next_id)
      INTO told, changed, shared, first, second
      FROM (SELECT e.event_id, e.metadata -> 'adopted'::text IS NOT DISTINCT FROM origin AS mine,
                   e.metadata #>> '{adopted,table}'::text[] IS NOT DISTINCT FROM source
                       AND e.metadata -> 'adopted'::text <> origin AS here, -- a row beside this one
                   e.stream_id = event_stream AND e.event_type = outbox_adopted_event.event_type AND e.topic = event_topic
                       AND e.payload = outbox_adopted_event.payload AND coalesce(e.occurred_at = event_occurred, true) AS alike
              FROM {schema}.events AS e WHERE e.event_id IN (id, next_id)) AS f;
    told := coalesce(told, false);
    changed := coalesce(changed, false) AND NOT told;
    shared := coalesce(shared, false) AND NOT told;
    IF second THEN
        next_id := gen_random_uuid();
    END IF;
    IF first THEN
        id := next_id;
        next_id := gen_random_uuid();
    END IF;
END
$function$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_append_adopted(
    source text, row_key text, own_id uuid, stream text, type text, topic text, payload bytea, metadata text, of_headers boolean,
    tenant text, key text, occurred timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
    e    record;
    done record;
BEGIN
    e := {schema}.outbox_adopted_event(source, row_key, own_id, stream, type, topic, payload, metadata, of_headers, tenant, key, occurred);
    BEGIN
        done := {schema}.outbox_append_event(e.event_stream, e.event_type, payload, NULL::bigint, e.event_metadata, e.event_topic, e.event_key,
            NULL::bigint, NULL::text, e.event_tenant, true, NULL::timestamptz, e.id, e.event_occurred);
    EXCEPTION WHEN unique_violation THEN -- another transaction took the id meanwhile
        done := {schema}.outbox_append_event(e.event_stream, e.event_type, payload, NULL::bigint, e.event_metadata, e.event_topic, e.event_key,
            NULL::bigint, NULL::text, e.event_tenant, true, NULL::timestamptz, NULL::uuid, e.event_occurred);
    END;
END
$function$;
-- +goose StatementEnd
COMMENT ON FUNCTION {schema}.outbox_append_adopted(text, text, uuid, text, text, text, bytea, text, boolean, text, text, timestamptz) IS
    'What the trigger of `postrider adopt` calls: the event of a row that was written for another relay.';

REVOKE EXECUTE ON FUNCTION
    {schema}.outbox_adopted_name(text), {schema}.outbox_adopted_headers(jsonb), {schema}.outbox_adopted_metadata(text, boolean),
    {schema}.outbox_adopted_event(text, text, uuid, text, text, text, bytea, text, boolean, text, text, timestamptz),
    {schema}.outbox_append_adopted(text, text, uuid, text, text, text, bytea, text, boolean, text, text, timestamptz) FROM PUBLIC;

-- The state of a row of the outbox, for the view and for statements that show rows.
-- What waits for its time is a state of its own. (clock_timestamp() would keep the
-- planner from looking into the view.) Everybody may call it, as it is called with
-- the rights of whoever reads the view.
CREATE FUNCTION {schema}.outbox_state(dead_at timestamptz, blocked boolean, attempts int, parked boolean, available_at timestamptz, scheduled_for timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN dead_at IS NOT NULL THEN 'dead'
    WHEN blocked             THEN 'blocked'
    WHEN attempts > 0        THEN 'failed'
    WHEN parked AND scheduled_for IS NOT NULL AND available_at > statement_timestamp() THEN 'scheduled'
    ELSE 'pending'
END;

-- +goose Down
DROP FUNCTION {schema}.outbox_state(timestamptz, boolean, int, boolean, timestamptz, timestamptz);
DROP FUNCTION {schema}.outbox_append_adopted(text, text, uuid, text, text, text, bytea, text, boolean, text, text, timestamptz);
DROP FUNCTION {schema}.outbox_adopted_event(text, text, uuid, text, text, text, bytea, text, boolean, text, text, timestamptz);
DROP FUNCTION {schema}.outbox_adopted_metadata(text, boolean);
DROP FUNCTION {schema}.outbox_adopted_headers(jsonb);
DROP FUNCTION {schema}.outbox_adopted_name(text);
DROP FUNCTION {schema}.outbox_append_batch(text[], text[], bytea[], uuid[], bigint[], jsonb[], text[], text[], bigint[],
    text[], text[], boolean[], timestamptz[], timestamptz[]);
DROP FUNCTION {schema}.outbox_append_one_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz);
DROP FUNCTION {schema}.outbox_append_one(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz);
DROP FUNCTION {schema}.outbox_append(text, text, jsonb, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz);
DROP FUNCTION {schema}.outbox_append_bytes(text, text, bytea, bigint, jsonb, text, text, text, text, boolean, timestamptz, uuid, timestamptz);
DROP FUNCTION {schema}.outbox_version_conflict(text, bigint, bigint);
DROP FUNCTION {schema}.outbox_refuse_key(text, text, text, bigint);
DROP FUNCTION {schema}.outbox_refuse_old_settings();
DROP FUNCTION {schema}.outbox_refuse_ids(uuid[]);
DROP FUNCTION {schema}.outbox_append_event(text, text, bytea, bigint, jsonb, text, text, bigint, text, text, boolean, timestamptz, uuid, timestamptz);
DROP FUNCTION {schema}.outbox_is_replaying();
DROP FUNCTION {schema}.outbox_without_enqueue();
ALTER TABLE {schema}.outbox_types DROP CONSTRAINT outbox_types_json_schema_check;
DROP FUNCTION {schema}.outbox_check_payload(text, jsonb, bytea, bigint);
DROP FUNCTION {schema}.outbox_mismatch(jsonb, jsonb, jsonb, text, int);
DROP FUNCTION {schema}.outbox_schema_problem(jsonb);
DROP FUNCTION {schema}.outbox_rules_problem(jsonb, jsonb, text);
DROP FUNCTION {schema}.outbox_pattern_problem(jsonb);
DROP FUNCTION {schema}.outbox_pointer_token(text);
DROP FUNCTION {schema}.outbox_event_problem(text, text, text, text, text, text, bigint, int, jsonb, timestamptz, timestamptz, uuid);
DROP FUNCTION {schema}.outbox_metadata_problem(jsonb);
DROP FUNCTION {schema}.outbox_bad_time(timestamptz);
DROP FUNCTION {schema}.outbox_bad_value(text);
DROP FUNCTION {schema}.outbox_bad_text(text);
DROP FUNCTION {schema}.outbox_bad_utf8(text, int, int);
DROP FUNCTION {schema}.outbox_utf8();
DROP FUNCTION {schema}.outbox_partition(text, int);
DROP FUNCTION {schema}.outbox_hash_partition(bigint, int);
DROP FUNCTION {schema}.outbox_xxhash64(bytea);
