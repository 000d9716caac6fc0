-- query: Begin
-- What comes before the statements of a claim that read.
SELECT {position}, ARRAY[
-- include: planning
       ]

-- query: ClaimParked
-- Streams with parked rows whose first row is due again: the stream's parked
-- rows from its first one on. The caller cuts each stream at the first row that
-- is not due or dead. A scheduled row waits for what is below it to be decided, as a
-- ready one does (see ready). With @skip_dead dead rows are passed over. While nothing is parked, that
-- is all this costs: one look at an empty index.
SELECT p.partition_key, p.global_sequence, p.generation, p.attempts, p.stream_id, p.topic,
       p.blocked,
       p.dead_at IS NULL AND (p.available_at <= clock_timestamp() OR
-- include: early
       ) AS due,
       p.scheduled_for
  FROM unnest(@partitions::smallint[], @revisions::bigint[], @most::int[]) AS mine (partition_key, revision, most)
-- include: flowing
 CROSS JOIN LATERAL (
         SELECT DISTINCT h.stream_id
           FROM ((SELECT i.stream_id
                    FROM {schema}.outbox_parked AS i
                   WHERE i.available_at <= clock_timestamp()
-- include: leads
                   ORDER BY i.available_at
                   LIMIT mine.most)
                  UNION ALL
                 SELECT i.stream_id
-- include: too_far
                   CROSS JOIN LATERAL (
                         SELECT i.stream_id
                           FROM {schema}.outbox_parked AS i
                          WHERE (i.attempts > 0) = ahead.failed AND i.available_at > clock_timestamp() + ahead.most
                            AND (i.attempts > 0 OR i.scheduled_for IS NULL)
-- include: leads
                          LIMIT mine.most) AS i) AS h) AS head
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM {schema}.outbox_parked AS r
          WHERE r.partition_key = mine.partition_key
            AND r.stream_id = head.stream_id
            AND r.global_sequence <= (SELECT CASE WHEN @proven::boolean THEN current_setting('{safe}')::bigint ELSE @up_to END)
            AND NOT (@skip_dead::boolean AND r.dead_at IS NOT NULL)
          ORDER BY r.global_sequence
          LIMIT mine.most) AS p
 WHERE flowing.one = 1 AND
-- include: anything_parked
 LIMIT @total

-- query: ClaimDue
-- Parked rows that are due, each for itself: the claim of a relay that lets
-- later rows pass failed ones.
SELECT p.partition_key, p.global_sequence, p.generation, p.attempts, p.stream_id, p.topic,
       p.blocked,
       true AS due,
       p.scheduled_for
  FROM unnest(@partitions::smallint[], @revisions::bigint[], @most::int[]) AS mine (partition_key, revision, most)
-- include: flowing
 CROSS JOIN LATERAL (
         (SELECT r.*
            FROM {schema}.outbox_parked AS r
           WHERE r.available_at <= clock_timestamp()
-- include: alone
           ORDER BY r.available_at
           LIMIT mine.most)
          UNION ALL
         SELECT r.*
-- include: too_far
          CROSS JOIN LATERAL (
                 SELECT r.*
                   FROM {schema}.outbox_parked AS r
                  WHERE (r.attempts > 0) = ahead.failed AND r.available_at > clock_timestamp() + ahead.most
                    AND (r.attempts > 0 OR r.scheduled_for IS NULL)
-- include: alone
                  LIMIT mine.most) AS r) AS p
 WHERE flowing.one = 1
 LIMIT @total

-- query: ClaimReady
-- include: ready

-- query: ClaimLittle
-- A claim (ready) with the events of what it found (event, row by
-- row), for when that is little.
SELECT c.*, coalesce(e.sequence, 0), e.event_id, e.stream_version, e.event_type, e.size, e.payload,
       e.traceparent, e.tracestate, e.headers, e.correlation_id, e.causation_id, e.tenant_id, coalesce(e.audit_only, false), e.occurred_at, e.recorded_at
  FROM (
-- include: ready
       ) AS c
  LEFT JOIN LATERAL (
-- include: event
         WHERE e.sequence = ANY (ARRAY[c.global_sequence]::bigint[])
        OFFSET 0) AS s) AS e (sequence, event_id, stream_version, event_type, size, payload, traceparent, tracestate,
                                    headers, correlation_id, causation_id, tenant_id, audit_only, occurred_at, recorded_at) ON c.due AND NOT c.blocked

-- query: Server
-- Read last in a claim: the outbox's generation, and since when this server lives, as another one may have forgotten
-- something. The last value is true where anything may come due without being written.
SELECT s.generation, pg_postmaster_start_time(),
       EXISTS (SELECT FROM {schema}.outbox_parked AS p WHERE NOT p.blocked AND p.dead_at IS NULL)
  FROM {schema}.outbox_settings AS s

-- query: LogPosition
SELECT {position}

-- fragment: ready
-- The first undelivered rows of each partition above its cursor, with @proven up to what
-- was proven safe right before in this session, or else up to @up_to.
-- A row behind a parked row of its stream is returned as blocked; while nothing
-- is parked that question costs one look at an empty index. Replayed rows hold up
-- nothing: they were published before. With @passes
-- nothing is ever blocked, and with @skip_dead dead rows block nothing.
SELECT o.partition_key, o.global_sequence, o.generation, o.attempts, o.stream_id, o.topic,
-- include: anything_parked
       AND NOT @passes::boolean
       AND EXISTS (SELECT FROM {schema}.outbox_parked AS p
                    WHERE p.partition_key = o.partition_key
                      AND p.stream_id = o.stream_id
                      AND p.global_sequence < o.global_sequence
                      AND p.replay_id IS NULL
                      AND NOT (@skip_dead::boolean AND p.dead_at IS NOT NULL)) AS blocked,
       o.scheduled_for IS NULL OR o.available_at <= clock_timestamp() AS due
  FROM unnest(@partitions::smallint[], @revisions::bigint[], @after::bigint[], @most::int[]) AS mine (partition_key, revision, after, most)
-- include: flowing
 CROSS JOIN LATERAL (
         SELECT r.partition_key, r.global_sequence, r.generation, r.attempts, r.stream_id, r.topic, r.available_at, r.scheduled_for
           FROM {schema}.outbox_ready AS r
          WHERE r.partition_key = mine.partition_key
            AND r.global_sequence > mine.after
            AND r.global_sequence <= (SELECT CASE WHEN @proven::boolean THEN current_setting('{safe}')::bigint ELSE @up_to END)
          ORDER BY r.global_sequence
          LIMIT mine.most) AS o
 WHERE flowing.one = 1
 LIMIT @total

-- fragment: early
-- Whether the parked row p is due although its time is ahead: nobody scheduled it, so that a clock that stepped
-- back wrote that time, or it is further ahead than a retry can be.
       CASE WHEN p.attempts > 0 THEN p.available_at > clock_timestamp() + @longest::interval ELSE p.scheduled_for IS NULL END

-- fragment: too_far
-- What those rows have to be ahead of the clock at least, whether they have failed. Each is one look at
-- outbox_parked_early_idx, where nothing is while no clock steps back.
                   FROM (VALUES (false, interval '0'), (true, @longest::interval)) AS ahead (failed, most)

-- fragment: leads
                     AND i.partition_key = mine.partition_key
                     AND i.global_sequence <= (SELECT CASE WHEN @proven::boolean THEN current_setting('{safe}')::bigint ELSE @up_to END)
                     AND NOT i.blocked AND i.dead_at IS NULL
                     -- A scheduled row behind another one leads nothing, and must not
                     -- use up the limit. (As a join this could become a scan of the
                     -- partition for each row.)
                     AND EXISTS (SELECT FROM {schema}.outbox_parked AS e
                                  WHERE e.partition_key = i.partition_key
                                    AND e.stream_id = i.stream_id
                                    AND e.global_sequence < i.global_sequence
                                    AND NOT (@skip_dead::boolean AND e.dead_at IS NOT NULL)) IS NOT TRUE

-- fragment: alone
             AND r.partition_key = mine.partition_key
             AND r.global_sequence <= (SELECT CASE WHEN @proven::boolean THEN current_setting('{safe}')::bigint ELSE @up_to END)
             AND NOT r.blocked AND r.dead_at IS NULL

-- fragment: flowing
-- How every claim leaves out partitions that are paused, and fails over one that is not as it was left (a division
-- by zero): each is looked up by its key, one by one. As a plain join, where statistics say that hardly any flows, PostgreSQL
-- goes through all that were asked for once for each of them.
 CROSS JOIN LATERAL (
         SELECT 1 /
         -- include: as_left
                AS one
           FROM {schema}.outbox_partitions AS l
          WHERE l.partition_key = mine.partition_key
            AND l.paused_at IS NULL
          LIMIT 1) AS flowing

-- fragment: anything_parked
-- Whether anything is parked in the partitions asked for. While nothing is parked at
-- all, that is one look at an empty index, and not one for each partition.
(SELECT EXISTS (SELECT FROM {schema}.outbox_parked))
   AND (SELECT EXISTS (SELECT FROM {schema}.outbox_parked AS any_parked
                        WHERE any_parked.partition_key = ANY (@partitions::smallint[])))

-- query: Planning
SELECT
-- include: planning

-- fragment: planning
-- Keeps plans that were made while the tables were small from scanning
-- them whole when they have grown: an empty outbox is the normal state (ADR 14). To remember
-- what was found for a partition is dearer than to look again, as each comes once.
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true), set_config('enable_memoize', 'off', true),
       set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
