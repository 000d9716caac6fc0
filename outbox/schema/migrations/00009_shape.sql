-- What the workers' messages look like, for commands that must make the same.

-- +goose Up
ALTER TABLE {schema}.outbox_workers ADD COLUMN shape text;
COMMENT ON COLUMN {schema}.outbox_workers.shape IS 'The settings that change messages, as the worker''s flags; NULL: it does not say.';

-- +goose Down
ALTER TABLE {schema}.outbox_workers DROP COLUMN shape;
