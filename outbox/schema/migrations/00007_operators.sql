-- What the monitor and its operators need beyond the commands of 00006.
--
-- Roles, beyond 00006:
--
--   GRANT UPDATE (drain_requested_at) ON {schema}.outbox_workers TO app_operator;
--   -- a worker whose monitor shows the audit
--   GRANT SELECT ON {schema}.outbox_audit TO app_relay;

-- +goose Up
-- The worker itself answers the request: it turns draining and gives its
-- partitions back. Programs that do not know the column are not disturbed.
ALTER TABLE {schema}.outbox_workers ADD COLUMN drain_requested_at timestamptz;
COMMENT ON COLUMN {schema}.outbox_workers.drain_requested_at IS 'When an operator asked the worker to give its partitions back and to take none until it is started again.';

-- What operators did to one message.
CREATE INDEX outbox_audit_sequences_idx ON {schema}.outbox_audit USING gin ((target -> 'sequences') jsonb_path_ops);

-- The few rows that failed or died, among millions that wait behind them.
CREATE INDEX outbox_parked_trouble_idx ON {schema}.outbox_parked (partition_key, global_sequence)
    WHERE dead_at IS NOT NULL OR NOT blocked AND attempts > 0;

-- +goose Down
DROP INDEX {schema}.outbox_parked_trouble_idx;
DROP INDEX {schema}.outbox_audit_sequences_idx;
ALTER TABLE {schema}.outbox_workers DROP COLUMN drain_requested_at;
