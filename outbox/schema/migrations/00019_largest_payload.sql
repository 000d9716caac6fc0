-- NATS advises against messages above 8 MiB, and takes 1 MiB unless it is told otherwise.
-- What is larger shall fail where it is appended, not when it is published. An outbox
-- that holds events keeps its limit: it may need it.

-- +goose Up
ALTER TABLE {schema}.outbox_settings ALTER COLUMN max_payload_bytes SET DEFAULT 8388608;
UPDATE {schema}.outbox_settings SET max_payload_bytes = 8388608
 WHERE max_payload_bytes = 67108864 AND NOT EXISTS (SELECT FROM {schema}.events);
COMMENT ON COLUMN {schema}.outbox_settings.max_payload_bytes IS 'The append functions refuse larger payloads. Where it is above 8 MiB, workers read as much.';

-- +goose Down
ALTER TABLE {schema}.outbox_settings ALTER COLUMN max_payload_bytes SET DEFAULT 67108864;
COMMENT ON COLUMN {schema}.outbox_settings.max_payload_bytes IS NULL;
