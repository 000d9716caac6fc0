-- A producer in SQL: state, event and pointer row in one transaction.
--
--   psql -f examples/psql/append.sql "$DATABASE_URL"
--
-- It can be repeated: the table stays, the order and its stream get a new name each time.
\set ON_ERROR_STOP on
\set stream `date +example-%s-$$`

CREATE TABLE IF NOT EXISTS example_orders (
    name   text PRIMARY KEY,
    amount int  NOT NULL,
    paid   boolean NOT NULL DEFAULT false
);

BEGIN;
INSERT INTO example_orders (name, amount) VALUES (:'stream', 250);
-- expected_version => 0: the stream must be new.
SELECT outbox_append(:'stream', 'order.placed', jsonb_build_object('amount', 250),
                     topic => 'shop', expected_version => 0,
                     metadata => '{"correlation_id": "example", "headers": {"Source": "psql"}}') AS placed;
COMMIT;

BEGIN;
UPDATE example_orders SET paid = true WHERE name = :'stream';
SELECT outbox_append(:'stream', 'order.paid', jsonb_build_object('amount', 250),
                     topic => 'shop', expected_version => 1, dedupe_key => :'stream' || '-paid') AS paid;
COMMIT;

-- The same dedupe key again: nothing is written, the first sequence comes back.
SELECT outbox_append(:'stream', 'order.paid', jsonb_build_object('amount', 250),
                     topic => 'shop', dedupe_key => :'stream' || '-paid') AS paid_again;

-- Recorded for the audit, never published.
SELECT outbox_append(:'stream', 'order.viewed', '{}', publish => false) AS recorded_only;

-- Not published before ten seconds have passed; later events of the stream wait behind it.
SELECT outbox_append(:'stream', 'order.reminded', '{}', topic => 'shop',
                     available_at => clock_timestamp() + interval '10 seconds') AS scheduled;

SELECT global_sequence, partition_key, state, available_at, stream_sequence
  FROM outbox_messages WHERE stream_id = :'stream' ORDER BY global_sequence;
