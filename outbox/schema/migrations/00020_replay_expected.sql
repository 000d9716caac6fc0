-- What a replay has to select is its own: whoever goes on counting it refuses another number.

-- +goose Up
ALTER TABLE {schema}.outbox_replays ADD COLUMN expected bigint;
COMMENT ON COLUMN {schema}.outbox_replays.expected IS 'How many events must be selected; NULL: any number. One that selects another number is cancelled before it begins.';

-- +goose Down
ALTER TABLE {schema}.outbox_replays DROP COLUMN expected;
