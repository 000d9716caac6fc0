-- query: Counting
SELECT
-- include: counting

-- query: Probing
-- Leaves the planner nothing but the indexes in their order, whatever it
-- believes about the tables.
SELECT
-- include: counting
       , set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true)

-- fragment: counting
-- Takes one core at most, so that the time it takes is what it costs. The
-- planner takes small reads for large ones, for which compiling them would cost
-- more than they do.
       set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)

-- query: Backlog
SELECT l.partition_key,
       coalesce(ready.pending, 0) + coalesce(parked.pending, 0),
       coalesce(parked.failed, 0), coalesce(parked.blocked, 0), coalesce(parked.dead, 0), coalesce(parked.scheduled, 0),
       coalesce(parked.streams, 0),
       greatest(s.at - least(first.available_at, parked.oldest), interval '0'),
       coalesce(first.global_sequence, l.delivered),
       s.at
  FROM {schema}.outbox_partitions AS l
 CROSS JOIN (SELECT clock_timestamp() AS at) AS s
  LEFT JOIN (SELECT partition_key, count(*) AS pending
               FROM {schema}.outbox_ready
              GROUP BY partition_key) AS ready USING (partition_key)
  LEFT JOIN LATERAL (
         SELECT r.global_sequence, CASE WHEN isfinite(r.available_at) THEN r.available_at END AS available_at
           FROM {schema}.outbox_ready AS r
          WHERE r.partition_key = l.partition_key
          ORDER BY r.global_sequence
          LIMIT 1) AS first ON true
  LEFT JOIN (SELECT partition_key,
                    count(*) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts = 0 AND (scheduled_for IS NULL OR available_at <= clock_timestamp())) AS pending,
                    count(*) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts > 0)  AS failed,
                    count(*) FILTER (WHERE dead_at IS NULL AND blocked)                       AS blocked,
                    count(DISTINCT stream_id) FILTER (WHERE dead_at IS NULL AND blocked)      AS streams,
                    count(*) FILTER (WHERE dead_at IS NOT NULL)                               AS dead,
                    count(*) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts = 0 AND scheduled_for IS NOT NULL AND available_at > clock_timestamp()) AS scheduled,
                    min(available_at) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts = 0 AND (scheduled_for IS NULL OR available_at <= clock_timestamp())
                                              AND isfinite(available_at)) AS oldest
               FROM {schema}.outbox_parked
              GROUP BY partition_key) AS parked USING (partition_key)
 ORDER BY l.partition_key

-- query: Oldest
-- The first row of each partition that can be published, from a sequence on before
-- which there was none (@partitions, @start), and when it became available; of the parked rows
-- whose time has come the first one of the first 100. Never more than a few rows are read,
-- whatever the backlog: dead rows, which a look from the beginning would wade
-- through, lie before that sequence. Where nothing waits, what was delivered is
-- where the next look begins.
SELECT l.partition_key, coalesce(first.global_sequence, greatest(l.delivered, mine.start)),
       least(first.available_at, parked.available_at) IS NOT NULL,
       greatest(s.at - least(first.available_at, parked.available_at), interval '0'), s.at
  FROM {schema}.outbox_partitions AS l
 CROSS JOIN (SELECT clock_timestamp() AS at) AS s
  LEFT JOIN unnest(@partitions::smallint[], @start::bigint[]) AS mine (partition_key, start) USING (partition_key)
  LEFT JOIN LATERAL (
         SELECT r.global_sequence, CASE WHEN isfinite(r.available_at) THEN r.available_at END AS available_at
           FROM {schema}.outbox_ready AS r
          WHERE r.partition_key = l.partition_key AND r.global_sequence >= coalesce(mine.start, 0)
          ORDER BY r.global_sequence
          LIMIT 1) AS first ON true
  LEFT JOIN LATERAL (
         SELECT min(p.available_at) AS available_at
           FROM (SELECT d.available_at, d.attempts
                   FROM {schema}.outbox_parked AS d
                  WHERE d.partition_key = l.partition_key AND NOT d.blocked AND d.dead_at IS NULL AND d.available_at <= s.at
                  ORDER BY d.available_at
                  LIMIT 100) AS p
          WHERE p.attempts = 0 AND isfinite(p.available_at)) AS parked ON true
 ORDER BY l.partition_key

-- query: Heads
-- Reads at most @each ready rows of each partition, from the sequence in @start on, before which there was none. Reads the
-- due ones of its first @each parked rows, too. It reads no more rows, whatever the backlog.
SELECT l.partition_key, h.global_sequence, h.topic, h.parked, greatest(s.at - CASE WHEN isfinite(h.available_at) THEN h.available_at END, interval '0')
  FROM {schema}.outbox_partitions AS l
 CROSS JOIN (SELECT clock_timestamp() AS at) AS s
  LEFT JOIN unnest(@partitions::smallint[], @start::bigint[]) AS mine (partition_key, start) USING (partition_key)
 CROSS JOIN LATERAL (
         (SELECT r.global_sequence, r.topic, r.available_at, false AS parked
            FROM {schema}.outbox_ready AS r
           WHERE r.partition_key = l.partition_key AND r.global_sequence >= coalesce(mine.start, 0)
           ORDER BY r.global_sequence
           LIMIT @each)
         UNION ALL
         SELECT p.global_sequence, p.topic, p.available_at, true
           FROM (SELECT d.global_sequence, d.topic, d.available_at, d.attempts
                   FROM {schema}.outbox_parked AS d
                  WHERE d.partition_key = l.partition_key AND NOT d.blocked AND d.dead_at IS NULL AND d.available_at <= s.at
                  ORDER BY d.available_at
                  LIMIT @each) AS p
          WHERE p.attempts = 0) AS h

-- query: DeadTopics
-- How many messages of each topic are dead: of the topics in @topics and of as many others as fit into @most, those with most
-- of them first; then of all topics. It reads the parked rows once, as the count of the backlog does.
WITH dead AS (SELECT topic, count(*) AS messages FROM {schema}.outbox_parked WHERE dead_at IS NOT NULL GROUP BY topic)
(SELECT topic, messages FROM dead ORDER BY topic = ANY (@topics::text[]) DESC, messages DESC, topic COLLATE "C" LIMIT @most)
UNION ALL
(SELECT NULL, coalesce(sum(messages), 0)::bigint FROM dead)

-- query: DeadSome
-- Some of the dead messages, @most at most.
SELECT global_sequence FROM {schema}.outbox_parked WHERE dead_at IS NOT NULL LIMIT @most
