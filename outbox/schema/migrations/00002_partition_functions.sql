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

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_xxhash64(data bytea) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
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
COMMENT ON FUNCTION {schema}.outbox_xxhash64 IS 'XXH64, seed 0; the 64 bits are returned as a signed bigint.';

-- The unsigned remainder of a hash that is stored signed. Give it variables or
-- columns: the planner puts it in line only when repeating the arguments is cheap.
CREATE FUNCTION {schema}.outbox_hash_partition(hash bigint, partitions int) RETURNS smallint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
'SELECT ((((((hash >> 32) & 4294967295) % partitions) << 32) | (hash & 4294967295)) % partitions)::smallint';

-- +goose StatementBegin
CREATE FUNCTION {schema}.outbox_partition(key text, partitions int) RETURNS smallint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
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
COMMENT ON FUNCTION {schema}.outbox_partition IS 'The partition of a key: XXH64 of its UTF-8 bytes, unsigned, modulo the number of partitions.';

-- +goose Down
DROP FUNCTION {schema}.outbox_partition(text, int);
DROP FUNCTION {schema}.outbox_hash_partition(bigint, int);
DROP FUNCTION {schema}.outbox_xxhash64(bytea);
