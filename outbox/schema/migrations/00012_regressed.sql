-- +goose Up
-- When the database turned out to have forgotten what was published, instead of where.
ALTER TABLE {schema}.outbox_settings
    ALTER COLUMN regressed TYPE timestamptz USING CASE WHEN regressed IS NOT NULL THEN clock_timestamp() END;
COMMENT ON COLUMN {schema}.outbox_settings.regressed IS 'When generation was raised last because the database had forgotten published events.';

-- +goose Down
ALTER TABLE {schema}.outbox_settings ALTER COLUMN regressed TYPE text USING NULL;
COMMENT ON COLUMN {schema}.outbox_settings.regressed IS 'System identifier and timeline for which generation was raised.';
