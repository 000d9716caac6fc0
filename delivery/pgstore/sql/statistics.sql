-- query: Throughput
-- The last @minutes minutes, the running one included, with zeros where nothing was.
-- The table holds days: each minute is looked up by the index, whatever the
-- planner thinks of the others. It knows how many integers a series has, and of
-- timestamps it does not: there it would expect a thousand and compile the query.
SELECT m.minute, coalesce(t.published, 0)::bigint, coalesce(t.failed, 0)::bigint,
       coalesce(t.retried, 0)::bigint, coalesce(t.skipped, 0)::bigint
  FROM (SELECT date_trunc('minute', statement_timestamp()) - ago * interval '1 minute' AS minute
          FROM generate_series(0, @minutes::int - 1) AS ago) AS m
 CROSS JOIN LATERAL (
         SELECT least(coalesce(sum(b.published), 0), 9223372036854775807) AS published, least(coalesce(sum(b.failed), 0), 9223372036854775807) AS failed, least(coalesce(sum(b.retried), 0), 9223372036854775807) AS retried, least(coalesce(sum(b.skipped), 0), 9223372036854775807) AS skipped
           FROM {schema}.outbox_throughput AS b
          WHERE b.minute = m.minute) AS t
 ORDER BY m.minute

-- query: Latency
-- How long events took from being recorded, or from the time for which they were
-- scheduled, to being known as published: the first
-- and the last event of the newest batches of the last five minutes, at most @batches
-- batches. Messages of a later generation waited for a person and are left out.
-- (The clock in a subquery is asked once, so that the index bounds the scan.)
SELECT count(*),
       coalesce(percentile_cont(0.5)  WITHIN GROUP (ORDER BY s.seconds), 0),
       coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY s.seconds), 0)
  FROM (SELECT greatest(extract(epoch FROM d.published_at - since.at), 0)::float8 AS seconds
          FROM (SELECT b.first_sequence, b.last_sequence, b.published_at, b.scheduled
                  FROM {schema}.outbox_deliveries AS b
                 WHERE b.published_at > (SELECT clock_timestamp()) - interval '5 minutes' AND b.published_at <= (SELECT clock_timestamp())
                   AND b.generations IS NULL AND b.message_count > 0
                 ORDER BY b.published_at DESC
                 LIMIT @batches) AS d
         CROSS JOIN LATERAL (SELECT d.first_sequence UNION SELECT d.last_sequence) AS v (sequence)
          JOIN {events} AS e ON e.sequence = v.sequence
         CROSS JOIN LATERAL (SELECT greatest(e.recorded_at, (d.scheduled ->> v.sequence::text)::timestamptz)) AS since (at)
         WHERE isfinite(since.at)) AS s

-- query: Recent
-- What was marked as published in each second of the last @within, by the newest @batches batches of that time at most, the events a second
-- of the last ten, and since when nothing is missing: where there are more batches, since the first of these. (The clock in a subquery is
-- asked once, so that the index bounds the scan.)
WITH present AS MATERIALIZED (SELECT clock_timestamp() AS at),
     looked AS MATERIALIZED (
       SELECT b.message_count, b.published_at
         FROM {schema}.outbox_deliveries AS b
        WHERE b.published_at > (SELECT at FROM present) - @within::interval AND b.published_at <= (SELECT at FROM present)
        ORDER BY b.published_at DESC
        LIMIT @batches),
     whole AS (
       SELECT CASE WHEN (SELECT count(*) FROM looked) < @batches THEN at - @within::interval
                   ELSE (SELECT min(published_at) FROM looked) END AS since
         FROM present)
SELECT p.at, w.since,
       (SELECT coalesce(sum(d.message_count), 0)::float8 FROM looked AS d WHERE d.published_at > p.at - interval '10 seconds')
       / least(10, greatest(extract(epoch FROM p.at - w.since), 0.1))::float8,
       ARRAY(SELECT s.second FROM (SELECT date_trunc('second', published_at) AS second FROM looked GROUP BY 1) AS s ORDER BY 1),
       ARRAY(SELECT s.published::bigint
               FROM (SELECT date_trunc('second', published_at) AS second, sum(message_count) AS published FROM looked GROUP BY 1) AS s
              ORDER BY s.second)
  FROM present AS p, whole AS w

-- query: Horizon
-- What keeps vacuum from removing dead rows of this database: the oldest
-- transaction that a session, a prepared transaction, a standby or a replication
-- slot may still have to see, and for how long a transaction has been open. No
-- row for a role that may not look at other roles' sessions.
SELECT coalesce(max(age(h.xmin)), 0), greatest(max(clock_timestamp() - h.since), interval '0')
  FROM (SELECT x.xmin, a.xact_start AS since
          FROM pg_stat_activity AS a
         CROSS JOIN LATERAL (VALUES (a.backend_xmin), (a.backend_xid)) AS x (xmin) -- who has written and idles has the latter alone
         WHERE x.xmin IS NOT NULL
           AND (a.datname = current_database() OR a.datid IS NULL) AND a.pid <> pg_backend_pid()
           AND a.backend_type <> 'autovacuum worker'
         UNION ALL
        SELECT p.transaction, p.prepared
          FROM pg_prepared_xacts AS p
         WHERE p.database = current_database()
         UNION ALL
        SELECT s.xmin, NULL
          FROM pg_replication_slots AS s
         WHERE s.xmin IS NOT NULL) AS h
HAVING pg_has_role('pg_read_all_stats', 'USAGE')

-- query: ReadOnly
-- Whether nobody can write here. Who reads a standby, or has a role of its own that may
-- not write, does not know that.
SELECT current_setting('transaction_read_only')::boolean
       AND NOT pg_is_in_recovery()
       AND EXISTS (SELECT FROM pg_catalog.pg_settings AS s
                    WHERE s.name = 'default_transaction_read_only' AND s.setting = 'on'
                      AND s.source NOT IN ('user', 'database user', 'client', 'session'))

-- query: RetainDeliveries
DELETE FROM {schema}.outbox_deliveries
 WHERE id IN (SELECT id FROM {schema}.outbox_deliveries
               WHERE published_at < clock_timestamp() - @keep::interval
               ORDER BY published_at
               LIMIT @most
                 FOR UPDATE SKIP LOCKED)

-- query: RetainDedupe
DELETE FROM {schema}.outbox_dedupe_keys
 WHERE (topic, dedupe_key) IN (SELECT topic, dedupe_key FROM {schema}.outbox_dedupe_keys
               WHERE created_at < clock_timestamp() - @keep::interval
                 -- Of what waits they stay.
                 AND NOT EXISTS (SELECT FROM {schema}.outbox AS o
                                  WHERE o.partition_key = ANY (ARRAY(SELECT p.partition_key FROM {schema}.outbox_partitions AS p))
                                    AND o.global_sequence = outbox_dedupe_keys.global_sequence)
               LIMIT @most
                 FOR UPDATE SKIP LOCKED)

-- query: RetainThroughput
DELETE FROM {schema}.outbox_throughput
 WHERE (minute, partition_key) IN (SELECT minute, partition_key FROM {schema}.outbox_throughput
               WHERE minute < clock_timestamp() - @keep::interval
               ORDER BY minute
               LIMIT @most
                 FOR UPDATE SKIP LOCKED)

-- query: RetainOwnership
-- All but the newest @keep. Nobody may change what was told, so no row is locked before.
DELETE FROM {schema}.outbox_ownership
 WHERE id IN (SELECT id FROM {schema}.outbox_ownership
               WHERE id <= (SELECT id FROM {schema}.outbox_ownership
                             ORDER BY id DESC OFFSET @keep LIMIT 1)
               ORDER BY id
               LIMIT @most)
