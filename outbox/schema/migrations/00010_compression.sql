-- Long values are compressed with lz4 where the server has it. The history holds
-- the sequences of each batch, and to compress them with pglz was a third of what a
-- mark cost. Only values that are written from now on change.

-- +goose Up
-- +goose StatementBegin
DO $do$
BEGIN
    ALTER TABLE {schema}.outbox_deliveries
        ALTER COLUMN sequences        SET COMPRESSION lz4,
        ALTER COLUMN stream_sequences SET COMPRESSION lz4;
    ALTER TABLE {schema}.events
        ALTER COLUMN payload  SET COMPRESSION lz4,
        ALTER COLUMN metadata SET COMPRESSION lz4;
EXCEPTION
    WHEN feature_not_supported THEN -- built without lz4
        RAISE NOTICE 'the server has no lz4: long values stay compressed with pglz, which costs more';
END
$do$;
-- +goose StatementEnd

-- +goose Down
ALTER TABLE {schema}.outbox_deliveries
    ALTER COLUMN sequences        SET COMPRESSION default,
    ALTER COLUMN stream_sequences SET COMPRESSION default;
ALTER TABLE {schema}.events
    ALTER COLUMN payload  SET COMPRESSION default,
    ALTER COLUMN metadata SET COMPRESSION default;
