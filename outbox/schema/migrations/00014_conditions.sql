-- What keeps a worker from delivering, for everybody who cannot ask it.

-- +goose Up
ALTER TABLE {schema}.outbox_workers
    ADD COLUMN condition        text,
    ADD COLUMN condition_detail text,
    ADD COLUMN condition_since  timestamptz;
COMMENT ON COLUMN {schema}.outbox_workers.condition IS 'Why the worker cannot deliver, in one word; NULL: nothing keeps it.';
COMMENT ON COLUMN {schema}.outbox_workers.condition_detail IS 'The error behind it.';

-- +goose Down
ALTER TABLE {schema}.outbox_workers DROP COLUMN condition, DROP COLUMN condition_detail, DROP COLUMN condition_since;
