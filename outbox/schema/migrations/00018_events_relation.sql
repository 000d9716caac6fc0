-- Where the events are is the database's to say: a command that was told otherwise
-- would look at other events than the workers.

-- +goose Up
ALTER TABLE {schema}.outbox_settings ADD COLUMN events_relation text NOT NULL DEFAULT 'events'
    CONSTRAINT outbox_settings_events_relation_check
    CHECK (events_relation ~ '^[A-Za-z_][A-Za-z0-9_]{0,62}([.][A-Za-z_][A-Za-z0-9_]{0,62})?$');
COMMENT ON COLUMN {schema}.outbox_settings.events_relation IS 'Table or view that every worker and command reads events from, as name (in this schema) or schema.name; set by postrider migrate up.';

-- +goose Down
ALTER TABLE {schema}.outbox_settings DROP COLUMN events_relation;
