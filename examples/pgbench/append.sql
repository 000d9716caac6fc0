-- A producer for pgbench: each transaction appends one event to one of a thousand streams and queues it for
-- publication. With the outbox in another schema than public, set search_path in PGOPTIONS.
--
--   pgbench -n -f examples/pgbench/append.sql -c 4 -T 30 "$DATABASE_URL"
--
-- -n: there are no pgbench tables to vacuum. Workers find the events by polling, so add one poll interval (50 ms by
-- default) to the latency.
\set order random(1, 1000)
\set amount random(1, 100000)
SELECT outbox_append('order-' || :order, 'order.paid', jsonb_build_object('order', :order, 'amount', :amount),
                     topic => 'shop');
