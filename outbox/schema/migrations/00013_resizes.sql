-- What a resize must not forget, and how a dead one is told from one at work.
--
-- Roles, beyond 00011:
--
--   GRANT SELECT, UPDATE ON {schema}.outbox_former_partitions TO app_relay;
--   -- who changes the number of partitions
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.outbox_former_partitions TO app_operator;
--   GRANT UPDATE (frozen_by, resized_at) ON {schema}.outbox_settings TO app_operator;

-- +goose Up
-- The stream keeps the record of a partition that was removed, and the history what
-- was published there. So its epoch must not begin anew when the partition comes
-- back, and what the stream loses of it must still be noticed.
CREATE TABLE {schema}.outbox_former_partitions (
    lease_epoch     bigint      NOT NULL,
    fence_sequence  bigint      NOT NULL,
    stream_sequence bigint      NOT NULL,
    removed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    partition_key   smallint    NOT NULL,
    CONSTRAINT outbox_former_partitions_pkey PRIMARY KEY (partition_key)
);
COMMENT ON TABLE {schema}.outbox_former_partitions IS 'Rows of outbox_partitions that a resize or sync --prune removed; a partition that comes back goes on from here.';

ALTER TABLE {schema}.outbox_settings ADD COLUMN frozen_by uuid, ADD COLUMN resized_at timestamptz;
COMMENT ON COLUMN {schema}.outbox_settings.frozen_at IS 'Workers give back all leases and take none for a minute from then, as long as the session that froze the outbox holds its advisory lock; it keeps setting this.';
COMMENT ON COLUMN {schema}.outbox_settings.frozen_by IS 'Owner of the leases of whoever froze the outbox. They are free when its session is gone.';
COMMENT ON COLUMN {schema}.outbox_settings.resized_at IS 'What was published before then may belong to another partition by now.';

-- +goose Down
ALTER TABLE {schema}.outbox_settings DROP COLUMN frozen_by, DROP COLUMN resized_at;
COMMENT ON COLUMN {schema}.outbox_settings.frozen_at IS 'For a minute from then workers give back all leases and take none; whoever froze the outbox keeps setting it.';
DROP TABLE {schema}.outbox_former_partitions;
