-- query: Set
-- The settings of a transaction, but for those that a server does not have yet: transaction_timeout before PostgreSQL 17.
SELECT set_config(s.name, s.value, true) FROM unnest(@names::text[], @values::text[]) AS s (name, value) WHERE current_setting(s.name, true) IS NOT NULL

-- query: LockTable
-- A resize locks the table before the lease rows, and so must all others.
LOCK TABLE {schema}.outbox IN ROW EXCLUSIVE MODE

-- query: LockPartitions
-- In the order of the workers' marks, so that neither waits for the other in a
-- circle.
SELECT partition_key
  FROM {schema}.outbox_partitions
 WHERE partition_key = ANY (@partitions::smallint[])
 ORDER BY partition_key
   FOR NO KEY UPDATE

-- query: Partitions
SELECT array_agg(p::smallint) FROM {schema}.outbox_settings AS s, generate_series(0, s.partition_count - 1) AS p

-- query: Promote
-- The first parked row of each stream is blocked by nothing any more.
UPDATE {schema}.outbox AS p
   SET blocked = false
  FROM (SELECT DISTINCT s.partition_key, s.stream_id
          FROM unnest(@partitions::smallint[], @streams::text[]) AS s (partition_key, stream_id)) AS stream
 CROSS JOIN LATERAL (
         SELECT f.global_sequence
           FROM {schema}.outbox AS f
          WHERE f.parked AND f.partition_key = stream.partition_key AND f.stream_id = stream.stream_id
          ORDER BY f.global_sequence
          LIMIT 1) AS first
 WHERE p.parked AND p.blocked
   AND p.partition_key = stream.partition_key
   AND p.global_sequence = first.global_sequence

-- query: Record
INSERT INTO {schema}.outbox_audit (actor, action, target, reason, details)
VALUES (@actor, @action, @target, nullif(@reason, ''), @details)
