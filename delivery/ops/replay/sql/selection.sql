-- query: HasStream
SELECT EXISTS (SELECT FROM {events} AS e WHERE e.stream_id = @stream)

-- query: Writers
-- The highest sequence that is visible, the watermark, and the transactions that
-- hold a lock which a writer of events holds: of the table, its partitions, and
-- the tables that a view reads, each with its process, 0 for a prepared one. All that
-- was drawn up to then is decided when these have ended, by name; but nothing while
-- there is a prepared one that the server recovered, for that has another name than
-- before.
WITH RECURSIVE tables (relid) AS (
       SELECT @events::text::regclass::oid
        UNION
       SELECT below.relid
         FROM tables AS t
        CROSS JOIN LATERAL (
                SELECT i.inhrelid FROM pg_inherits AS i WHERE i.inhparent = t.relid
                 UNION ALL
                SELECT d.refobjid
                  FROM pg_rewrite AS r
                  JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
                 WHERE r.ev_class = t.relid AND r.ev_type = '1') AS below (relid))
SELECT (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e),
       (SELECT w.safe_sequence FROM {schema}.outbox_watermark AS w),
       coalesce(array_agg(l.virtualtransaction), '{}'), coalesce(array_agg(coalesce(l.pid, 0)), '{}'),
       coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false)
  FROM (SELECT DISTINCT k.virtualtransaction, k.pid
          FROM pg_locks AS k
         WHERE k.locktype = 'relation' AND k.granted AND k.mode = 'RowExclusiveLock'
           AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
           AND k.relation IN (SELECT relid FROM tables)
           AND k.pid IS DISTINCT FROM pg_backend_pid()) AS l

-- query: Count
-- Counts the selected events between @after and @upto. The left-out ones of replay @id
-- are not counted, nor, for a replay that is only thought of (@id is NULL), what
-- waits in the outbox or was skipped or discarded.
-- include: count
-- include: not_left_out

-- query: CountCurrent
-- As Count, of the last event of each stream alone.
-- include: count
   AND
       -- include: current
-- include: not_left_out

-- query: Unwanted
-- How many selected events operators skipped or discarded.
SELECT count(*)
  FROM (SELECT DISTINCT
               -- include: unwanted
               AND u.sequence::bigint > @after AND u.sequence::bigint <= @upto) AS unwanted
  JOIN {events} AS e USING (sequence)
 WHERE
       -- include: match

-- query: Waiting
-- How many selected events wait in the outbox.
SELECT count(*)
  FROM (SELECT DISTINCT o.global_sequence AS sequence
          FROM {schema}.outbox AS o
         WHERE o.global_sequence > @after AND o.global_sequence <= @upto
           AND (@stream::text IS NULL OR o.stream_id = @stream)
           AND (NOT @shadow::boolean OR o.replay_id IS NULL)) AS waiting
  JOIN {events} AS e USING (sequence)
 WHERE
       -- include: match

-- query: LeaveOut
-- What waits in the outbox when a replay is made is delivered without it, or, for
-- a shadow, is not published yet; what operators skipped or discarded must not be
-- published.
WITH waiting AS MATERIALIZED (
       SELECT o.global_sequence AS sequence
         FROM {schema}.outbox AS o
        WHERE o.global_sequence > @after AND o.global_sequence <= @upto
          AND (@stream::text IS NULL OR o.stream_id = @stream)
          AND (NOT @shadow::boolean OR o.replay_id IS NULL)
        UNION
       SELECT
              -- include: unwanted
              AND u.sequence::bigint > @after AND u.sequence::bigint <= @upto)
INSERT INTO {schema}.outbox_replay_sequences (replay_id, sequence)
SELECT @id, e.sequence
  FROM waiting JOIN {events} AS e USING (sequence)
 WHERE
       -- include: match

-- query: Troubled
-- The selected rows that failed and were not published. An event that is missing
-- matches when nothing is asked of events.
SELECT o.global_sequence
  FROM {schema}.outbox AS o
  LEFT JOIN {events} AS e ON e.sequence = o.global_sequence
 WHERE o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
   AND o.global_sequence > @after AND o.global_sequence <= @upto
   AND (e.sequence IS NULL AND coalesce(@stream::text, @type::text, @topic::text, @tenant::text, @since::timestamptz::text, @until::timestamptz::text) IS NULL
        OR e.sequence IS NOT NULL AND
            -- include: match
            )

-- query: Following
-- Where events go on behind @after, up to @upto: between two parts of them lie sequences without end.
SELECT coalesce(min(e.sequence) - 1, @upto) FROM {events} AS e WHERE e.sequence > @after AND e.sequence <= @upto

-- query: Page
-- The next events of replay @id behind @after and up to @upto, at most @limit.
-- include: page
-- include: not_named
 ORDER BY e.sequence
 LIMIT @limit

-- query: PageOfStream
-- Those of one stream are read by its index: their versions ascend as their sequences do.
-- include: page
-- include: not_named
 ORDER BY e.stream_version
 LIMIT @limit

-- query: CurrentPage
-- include: page
   AND
       -- include: current
-- include: not_named
 ORDER BY e.sequence
 LIMIT @limit

-- query: CurrentPageOfStream
-- include: page
   AND
       -- include: current
-- include: not_named
 ORDER BY e.stream_version
 LIMIT @limit

-- fragment: count
SELECT count(*), coalesce(min(e.sequence), 0), coalesce(max(e.sequence), 0), min(e.recorded_at), max(e.recorded_at)
  FROM {events} AS e
 WHERE e.sequence > @after AND e.sequence <= @upto
   AND
       -- include: match

-- fragment: not_left_out
   AND (@id::bigint IS NOT NULL
        OR e.sequence NOT IN (SELECT o.global_sequence FROM {schema}.outbox AS o
                               WHERE o.partition_key = ANY (@partitions::smallint[]) AND o.global_sequence > @after AND o.global_sequence <= @upto
                                 AND (@stream::text IS NULL OR o.stream_id = @stream) AND (NOT @shadow::boolean OR o.replay_id IS NULL)
                               UNION ALL
                              SELECT
                              -- include: unwanted
                              ))
   AND (@id::bigint IS NULL
        OR e.sequence NOT IN (SELECT x.sequence FROM {schema}.outbox_replay_sequences AS x
                               WHERE x.replay_id = @id AND x.sequence > @after AND x.sequence <= @upto))

-- fragment: page
SELECT e.sequence, e.stream_id, coalesce({topic}, 'default'), coalesce({routing_key}, e.stream_id)
  FROM {events} AS e
 WHERE e.sequence > @after AND e.sequence <= @upto
   AND
       -- include: match

-- fragment: not_named
   AND NOT EXISTS (SELECT FROM {schema}.outbox_replay_sequences AS x WHERE x.replay_id = @id AND x.sequence = e.sequence)

-- fragment: match
-- The conditions of a selection on the event e.
       NOT {audit_only}
   AND (@stream::text IS NULL OR e.stream_id = @stream)
   AND (@type::text IS NULL OR e.event_type::text = @type)
   AND (@topic::text IS NULL OR {topic} = @topic)
   AND (@tenant::text IS NULL OR e.tenant_id::text = @tenant)
   AND (@since::timestamptz IS NULL OR e.recorded_at >= @since)
   AND (@until::timestamptz IS NULL OR e.recorded_at < @until)

-- fragment: current
-- No later event of the stream is selected, up to the replay's last sequence @last.
       NOT EXISTS (SELECT FROM {events} AS l
                    WHERE l.stream_id = e.stream_id AND l.stream_version > e.stream_version AND l.sequence <= @last::bigint
                      AND
                      -- include: later_match
                  )

-- fragment: later_match
-- As match, on the event l.
                      NOT {later_audit_only}
                  AND (@stream::text IS NULL OR l.stream_id = @stream)
                  AND (@type::text IS NULL OR l.event_type::text = @type)
                  AND (@topic::text IS NULL OR {later_topic} = @topic)
                  AND (@tenant::text IS NULL OR l.tenant_id::text = @tenant)
                  AND (@since::timestamptz IS NULL OR l.recorded_at >= @since)
                  AND (@until::timestamptz IS NULL OR l.recorded_at < @until)

-- fragment: unwanted
-- The events that operators skipped or discarded: the history forgets
-- them, the audit does not.
              u.sequence::bigint AS sequence
         FROM {schema}.outbox_audit AS a
        CROSS JOIN LATERAL jsonb_array_elements_text(a.target -> 'sequences') AS u (sequence)
        WHERE a.action IN ('dead.skip', 'dead.discard', 'scheduled.cancel')
