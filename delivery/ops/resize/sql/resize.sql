-- query: LockOutbox
-- Whoever appends holds these locks until its commit, and reads the count in
-- the statement that then inserts.
LOCK TABLE {schema}.outbox, {schema}.outbox_ready, {schema}.outbox_parked IN EXCLUSIVE MODE

-- query: LimitWaits
-- For this transaction: how long it waits for a lock, NULL as its session does; and after which silence of its process the server ends it.
-- transaction_timeout is PostgreSQL's since 17.
SELECT set_config('lock_timeout', @lock, true), set_config('idle_in_transaction_session_timeout', @idle, true),
       set_config('statement_timeout', '0', true), CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', true) END

-- query: Holders
-- Who holds a lock that LockOutbox waits for. A prepared transaction has no process.
SELECT coalesce(string_agg(DISTINCT CASE WHEN l.pid IS NULL THEN 'prepared transaction ' || coalesce(quote_literal(x.gid), '')
                                         ELSE format('pid %s (%s, %s s)', l.pid, coalesce(nullif(a.application_name, ''), 'unnamed'),
                                                     greatest(extract(epoch FROM clock_timestamp() - a.xact_start)::int, 0)) END, ', '),
                'nobody any more')
  FROM pg_locks AS l
  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
  LEFT JOIN pg_prepared_xacts AS x ON l.pid IS NULL AND l.virtualtransaction = '-1/' || x.transaction
 WHERE l.locktype = 'relation' AND l.granted AND l.mode <> 'AccessShareLock' AND l.pid IS DISTINCT FROM pg_backend_pid()
   AND l.relation IN ('{schema}.outbox'::regclass, '{schema}.outbox_ready'::regclass, '{schema}.outbox_parked'::regclass)
   AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())

-- query: Count
SELECT partition_count FROM {schema}.outbox_settings

-- query: LockCount
SELECT partition_count FROM {schema}.outbox_settings FOR UPDATE

-- query: HoldLeases
-- Compares every lease row and keeps them locked.
SELECT (SELECT count(*) FROM {schema}.outbox_partitions), count(*)
  FROM (SELECT p.partition_key FROM unnest(@partitions::smallint[], @epochs::bigint[]) AS mine (partition_key, epoch)
          JOIN {schema}.outbox_partitions AS p USING (partition_key)
         WHERE p.lease_owner = @owner AND p.lease_epoch = mine.epoch
         ORDER BY p.partition_key FOR UPDATE OF p) AS h

-- query: Paused
-- Which partitions are paused, since when, and how many partitions there are.
SELECT coalesce(array_agg(partition_key ORDER BY partition_key) FILTER (WHERE paused_at IS NOT NULL), '{}'), min(paused_at), count(*)
  FROM {schema}.outbox_partitions

-- query: PlanMoves
-- What Move would find and do.
SELECT count(*) FILTER (WHERE p.before <> p.partition_key), count(*) FILTER (WHERE p.after <> p.partition_key)
  FROM (
-- include: placed
       ) AS p

-- query: Move
-- Gives every row of the outbox its partition under the new count. A row that is
-- not where its key puts it under the old count was placed by a partitioner of
-- the producer's own, and comes back instead.
WITH placed AS (
-- include: placed
       ),
     foreign_rows AS (
       SELECT count(*) AS n FROM placed WHERE before <> partition_key),
     moved AS (
       UPDATE {schema}.outbox AS o
          SET partition_key = p.after
         FROM placed AS p, foreign_rows AS f
        WHERE f.n = 0 AND p.after <> p.partition_key
          AND o.partition_key = p.partition_key AND o.global_sequence = p.global_sequence AND o.parked = p.parked
    RETURNING 1)
SELECT (SELECT n FROM foreign_rows), (SELECT count(*) FROM moved)

-- fragment: placed
-- Where every row of the outbox lies, and where its key puts it under the old and the
-- new count.
SELECT o.partition_key, o.global_sequence, o.parked,
       {schema}.outbox_hash_partition({schema}.outbox_xxhash64(convert_to(coalesce({routing_key}, o.stream_id), 'UTF8')), @from::int) AS before,
       {schema}.outbox_hash_partition({schema}.outbox_xxhash64(convert_to(coalesce({routing_key}, o.stream_id), 'UTF8')), @to::int) AS after
  FROM {schema}.outbox AS o
  LEFT JOIN {events} AS e ON e.sequence = o.global_sequence

-- query: SetCount
-- Crashes were counted of the streams that a partition had: the next ones are not paused for them.
WITH others AS (UPDATE {schema}.outbox_partitions SET crashes = 0, carrying = false)
UPDATE {schema}.outbox_settings SET partition_count = @to, generation = generation + 1, resized_at = clock_timestamp(),
       resized_delivery = (SELECT coalesce(max(id), 0) FROM {schema}.outbox_deliveries)

-- query: PauseAll
UPDATE {schema}.outbox_partitions SET paused_at = @since WHERE paused_at IS NULL
