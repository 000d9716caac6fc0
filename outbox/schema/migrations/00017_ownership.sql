-- Who had which partition, also when nobody of them lives any more.
--
-- Roles, beyond 00013:
--
--   GRANT SELECT, INSERT, DELETE ON {schema}.outbox_ownership TO app_relay;
--   GRANT UPDATE ON {schema}.outbox_dedupe_keys TO app_relay; -- what is swept is locked before
--   GRANT SELECT ON {schema}.outbox_ownership TO app_monitor, app_operator;
--   -- who changes the number of partitions
--   GRANT INSERT ON {schema}.outbox_ownership TO app_operator;

-- +goose Up
-- One row for what one statement did to the leases that it found alike, not one for
-- each partition: to move 10,000 partitions costs a row for each worker that gives and
-- for each that takes. The newest 20,000 rows stay. To look for a partition reads
-- them all, some milliseconds.
CREATE TABLE {schema}.outbox_ownership (
    id                bigint      GENERATED ALWAYS AS IDENTITY,
    changed_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_until       timestamptz,
    worker_id         uuid,
    previous_id       uuid,
    kind              text        NOT NULL,
    hostname          text,
    previous_hostname text,
    partition_keys    smallint[]  NOT NULL,
    lease_epochs      bigint[]    NOT NULL,
    CONSTRAINT outbox_ownership_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE {schema}.outbox_ownership IS 'Changes of ownership, written by the statements that change outbox_partitions.';
COMMENT ON COLUMN {schema}.outbox_ownership.lease_until IS 'When the lease of previous_id ran out, where it was silent and others took over; the latest of them.';
COMMENT ON COLUMN {schema}.outbox_ownership.worker_id IS 'Who has the partitions from then on; NULL: nobody.';
COMMENT ON COLUMN {schema}.outbox_ownership.previous_id IS 'Who had them last; NULL: not known.';
COMMENT ON COLUMN {schema}.outbox_ownership.lease_epochs IS 'One entry per partition, in their order: under which they are had from then on, or were had where worker_id is NULL.';

-- Told to the next owner, and NULL while somebody holds the lease.
ALTER TABLE {schema}.outbox_partitions ADD COLUMN released_by uuid;
COMMENT ON COLUMN {schema}.outbox_partitions.released_by IS 'Who gave the lease back; NULL while it is held, and where nobody did.';

-- +goose Down
ALTER TABLE {schema}.outbox_partitions DROP COLUMN released_by;
DROP TABLE {schema}.outbox_ownership;
