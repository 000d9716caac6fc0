-- query: QueueKeys
-- The partitions whose rows the outbox may hold: also those that lack a lease row.
SELECT partition_key FROM {schema}.outbox_partitions
 UNION
SELECT p::smallint FROM {schema}.outbox_settings AS s, generate_series(0, s.partition_count - 1) AS p

-- query: HistoryKeys
-- The partitions of the history with their lowest first sequence, found by
-- hopping through an index, however long the history is.
WITH RECURSIVE k (partition_key) AS (
       (SELECT d.partition_key FROM {schema}.outbox_deliveries AS d ORDER BY d.partition_key LIMIT 1)
        UNION ALL
       SELECT (SELECT d.partition_key
                 FROM {schema}.outbox_deliveries AS d
                WHERE d.partition_key > k.partition_key
                ORDER BY d.partition_key
                LIMIT 1)
         FROM k
        WHERE k.partition_key IS NOT NULL)
SELECT k.partition_key,
       (SELECT d.first_sequence
          FROM {schema}.outbox_deliveries AS d
         WHERE d.partition_key = k.partition_key
         ORDER BY d.first_sequence
         LIMIT 1)
  FROM k
 WHERE k.partition_key IS NOT NULL

-- query: ReadyUp
-- Looks at the next @each rows of each partition, in one of the outbox's two parts,
-- behind its own sequence: tells those
-- that the filter chooses, and the last one looked at, so that the caller knows
-- how far it came. The filter is asked outside of the part that is limited, and
-- what it asks of an event stays a subquery, so that no statistics make this read
-- more than those rows.
-- include: lane
                row_number() OVER (ORDER BY o.global_sequence ASC)
-- include: lane_rows
                    AND o.global_sequence > l.after
                    AND NOT o.parked
                  ORDER BY o.global_sequence ASC
-- include: lane_end

-- query: ReadyDown
-- include: lane
                row_number() OVER (ORDER BY o.global_sequence DESC)
-- include: lane_rows
                    AND o.global_sequence < l.after
                    AND NOT o.parked
                  ORDER BY o.global_sequence DESC
-- include: lane_end

-- query: ParkedUp
-- include: lane
                row_number() OVER (ORDER BY o.global_sequence ASC)
-- include: lane_rows
                    AND o.global_sequence > l.after
                    AND o.parked
                  ORDER BY o.global_sequence ASC
-- include: lane_end

-- query: ParkedDown
-- include: lane
                row_number() OVER (ORDER BY o.global_sequence DESC)
-- include: lane_rows
                    AND o.global_sequence < l.after
                    AND o.parked
                  ORDER BY o.global_sequence DESC
-- include: lane_end

-- query: TroubledUp
-- include: lane
                row_number() OVER (ORDER BY o.global_sequence ASC)
-- include: lane_rows
                    AND o.global_sequence > l.after
                    -- include: troubled
                  ORDER BY o.global_sequence ASC
-- include: lane_end

-- query: TroubledDown
-- include: lane
                row_number() OVER (ORDER BY o.global_sequence DESC)
-- include: lane_rows
                    AND o.global_sequence < l.after
                    -- include: troubled
                  ORDER BY o.global_sequence DESC
-- include: lane_end

-- query: WindowUp
-- Looks at the next @most events, whatever became of them: tells those that the
-- filter chooses, and the last one.
-- include: window
               row_number() OVER (ORDER BY e.sequence ASC)
-- include: window_events
                 WHERE e.sequence > @after
                 ORDER BY e.sequence ASC
-- include: window_end

-- query: WindowDown
-- include: window
               row_number() OVER (ORDER BY e.sequence DESC)
-- include: window_events
                 WHERE e.sequence < @after
                 ORDER BY e.sequence DESC
-- include: window_end

-- query: SkippedUp
-- A page of the sequences that were settled without a message. They are few, and
-- no index knows them.
-- include: skipped
   AND s.sequence > @after
 ORDER BY s.sequence ASC
 LIMIT @limit

-- query: SkippedDown
-- include: skipped
   AND s.sequence < @after
 ORDER BY s.sequence DESC
 LIMIT @limit

-- query: Rows
-- The named rows of the outbox, with their events. Each is found by its key, as in
-- Among.
SELECT o.global_sequence, o.partition_key, o.stream_id, o.topic,
       -- include: state
       , o.attempts, o.generation,
       CASE WHEN isfinite(o.available_at) THEN o.available_at END, o.dead_at, coalesce(o.last_error, ''),
       e.event_id, e.event_type, e.stream_version, e.recorded_at
  FROM unnest(@partitions::smallint[], @sequences::bigint[]) AS k (partition_key, global_sequence)
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM {schema}.outbox AS r
          WHERE r.partition_key = k.partition_key AND r.global_sequence >= k.global_sequence AND r.global_sequence <= k.global_sequence
          ORDER BY r.global_sequence
          LIMIT 1) AS o
  LEFT JOIN LATERAL (
         SELECT e.event_id, e.event_type::text, e.stream_version, e.recorded_at
           FROM {events} AS e
          WHERE e.sequence = k.global_sequence
          LIMIT 1) AS e ON true

-- query: Among
-- Which of the sequences @sequences are in the outbox, and whether the filter chooses them.
-- Any partition may have them; each is looked up by itself, and the limit keeps the
-- planner from joining otherwise. The part that can be published has one index
-- alone; of the parked part the keys in question are given (@partitions, @places), and the
-- equality is written as two bounds in an order, so that no other index will do.
SELECT o.partition_key, o.global_sequence,
       coalesce(
                -- include: state
                = ANY (@states::text[])
                -- include: asked
                , false)
  FROM (SELECT r.*
          FROM unnest(@sequences::bigint[]) AS w (sequence)
         CROSS JOIN LATERAL (
                 SELECT q.*
                   FROM {schema}.outbox AS q
                  WHERE NOT q.parked AND q.partition_key = ANY (@in::smallint[]) AND q.global_sequence = w.sequence
                  LIMIT 1) AS r
         UNION ALL
        SELECT p.*
          FROM unnest(@partitions::smallint[], @places::bigint[]) AS k (partition_key, sequence)
         CROSS JOIN LATERAL (
                 SELECT q.*
                   FROM {schema}.outbox AS q
                  WHERE q.parked AND q.partition_key = k.partition_key
                    AND q.global_sequence >= k.sequence AND q.global_sequence <= k.sequence
                  ORDER BY q.global_sequence
                  LIMIT 1) AS p) AS o

-- query: Named
-- Those of the named events that the filter chooses.
SELECT e.sequence, e.stream_id, coalesce({topic}, ''), e.event_id, e.event_type::text, e.stream_version, e.recorded_at
  FROM {events} AS e
 WHERE e.sequence = ANY (@sequences::bigint[])
   AND (@stream::text IS NULL OR e.stream_id = @stream)
   AND (@topic::text IS NULL OR {topic} = @topic)
   AND (@type::text IS NULL OR e.event_type::text = @type)
   AND (@tenant::text IS NULL OR e.tenant_id::text = @tenant)
   AND (@since::timestamptz IS NULL OR e.recorded_at >= @since)
   AND (@until::timestamptz IS NULL OR e.recorded_at < @until)

-- query: Patience
-- How long the statements of this transaction may take.
SELECT set_config('statement_timeout', @patience, true)

-- query: Stream
-- The sequences of a stream, by its versions, of the @limit first ones at most, and
-- its parked rows with their partitions, also those whose event is not there.
(SELECT e.sequence, NULL::smallint AS partition_key FROM {events} AS e WHERE e.stream_id = @stream ORDER BY e.stream_version LIMIT @limit)
 UNION ALL
(SELECT p.global_sequence, p.partition_key
   FROM {schema}.outbox AS p
  WHERE p.parked AND p.partition_key = ANY (@partitions::smallint[]) AND p.stream_id = @stream
  LIMIT @limit)

-- query: QueuedBetween
-- Which sequences of a range are in the outbox.
SELECT o.global_sequence
  FROM {schema}.outbox AS o
 WHERE o.partition_key = ANY (@in::smallint[]) AND o.global_sequence BETWEEN @low AND @high

-- query: Deliveries
-- What the history tells about sequences between @low and @high, of these about @only
-- alone if given, the latest delivery of each last. Nothing was published before
-- @since; this and the partitions give the planner two ways in.
-- include: delivery
  FROM {schema}.outbox_deliveries AS d
 CROSS JOIN LATERAL unnest(
         coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
         d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
 WHERE d.partition_key = ANY (@in::smallint[])
   AND d.first_sequence <= @high AND d.last_sequence >= @low
   AND d.published_at >= @since
   AND (@only::bigint[] IS NULL OR CASE WHEN d.sequences IS NOT NULL THEN d.sequences && @only
                                     ELSE EXISTS (SELECT FROM unnest(@only) AS w (sequence)
                                                   WHERE w.sequence BETWEEN d.first_sequence AND d.last_sequence) END)
   AND s.sequence BETWEEN @low AND @high
   AND (@only IS NULL OR s.sequence = ANY (@only))
 ORDER BY s.sequence, d.id

-- query: Past
-- What the history tells about the named sequences, none of which was published
-- before its time in @since; the latest delivery of each last.
-- include: delivery
  FROM unnest(@sequences::bigint[], @since::timestamptz[]) AS w (sequence, since)
 CROSS JOIN LATERAL (
         SELECT d.*
           FROM {schema}.outbox_deliveries AS d
          WHERE d.partition_key = ANY (@in::smallint[])
            AND d.first_sequence <= w.sequence AND d.last_sequence >= w.sequence
            AND d.published_at >= w.since
            AND (d.sequences IS NULL OR w.sequence = ANY (d.sequences))
         OFFSET 0) AS d
 CROSS JOIN LATERAL (
         SELECT a.sequence, a.stream_sequence, a.position
           FROM unnest(coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))), d.stream_sequences)
                WITH ORDINALITY AS a (sequence, stream_sequence, position)
          WHERE a.sequence = w.sequence) AS s
 ORDER BY s.sequence, d.id

-- fragment: lane
SELECT l.lane, w.global_sequence, w.chosen, w.nth = @each
  FROM unnest(@partitions::smallint[], @after::bigint[]) WITH ORDINALITY AS l (partition_key, after, lane)
 CROSS JOIN LATERAL (
         SELECT o.global_sequence,

-- fragment: lane_rows
                AS nth,
                coalesce(
                         -- include: state
                         = ANY (@states::text[])
                         -- include: asked
                         , false) AS chosen
           FROM (SELECT o.*
                   FROM {schema}.outbox AS o
                  WHERE o.partition_key = l.partition_key

-- fragment: lane_end
                  LIMIT @each) AS o) AS w
 WHERE w.chosen OR w.nth = @each

-- fragment: window
SELECT w.sequence, w.stream_id, w.topic, w.event_id, w.event_type, w.stream_version, w.recorded_at, w.chosen, w.nth = @most
  FROM (SELECT e.*,

-- fragment: window_events
               AS nth,
               coalesce((@stream::text IS NULL OR e.stream_id = @stream)
                        AND (@topic::text IS NULL OR e.topic = @topic)
                        AND (@type::text IS NULL OR e.event_type::text = @type)
                        AND (@tenant::text IS NULL OR e.tenant_id::text = @tenant)
                        AND (@since::timestamptz IS NULL OR e.recorded_at >= @since)
                        AND (@until::timestamptz IS NULL OR e.recorded_at < @until), false) AS chosen
          FROM (SELECT e.sequence, e.stream_id, coalesce({topic}, '') AS topic, e.event_id, e.event_type::text, e.stream_version,
                       e.tenant_id::text, e.recorded_at
                  FROM {events} AS e

-- fragment: window_end
                 LIMIT @most) AS e) AS w
 WHERE w.chosen OR w.nth = @most

-- fragment: skipped
SELECT DISTINCT s.sequence
  FROM {schema}.outbox_deliveries AS d
 CROSS JOIN LATERAL unnest(d.skipped) AS s (sequence)
 WHERE d.skipped IS NOT NULL
   AND (@partitions::smallint[] IS NULL OR d.partition_key = ANY (@partitions))

-- fragment: delivery
SELECT s.sequence, d.partition_key, d.lease_epoch, d.published_at,
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END,
       coalesce((d.attempts ->> s.sequence::text)::int, 0),
       coalesce((d.generations ->> s.sequence::text)::int, 0),
       d.discarded IS NOT NULL AND s.sequence = ANY (d.discarded),
       d.lost_after

-- fragment: state
-- The state of a row of the outbox, as in the view outbox_messages.
       {schema}.outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)

-- fragment: troubled
-- Failed and dead rows, in the words of the index that knows them.
                   AND o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)

-- fragment: asked
-- What a filter asks of a row of the outbox, and of its event.
                         AND (@stream::text IS NULL OR o.stream_id = @stream)
                         AND (@topic::text IS NULL OR o.topic = @topic)
                         AND (@error::text IS NULL OR strpos(o.last_error, @error) > 0)
                         AND (@family::text IS NULL OR
                              -- include: family
                              = @family)
                         AND (@type::text IS NULL AND @tenant::text IS NULL AND @since::timestamptz IS NULL AND @until::timestamptz IS NULL
                              OR (SELECT (@type IS NULL OR e.event_type::text = @type)
                                         AND (@tenant IS NULL OR e.tenant_id::text = @tenant)
                                         AND (@since IS NULL OR e.recorded_at >= @since)
                                         AND (@until IS NULL OR e.recorded_at < @until)
                                    FROM {events} AS e
                                   WHERE e.sequence = o.global_sequence))

-- fragment: family
-- The last error without what differs from message to message: text in double quotes, words with a digit, and space.
                              btrim(regexp_replace(regexp_replace(left(o.last_error, 200), '"[^"]*"|[A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*', '#', 'g'), '\s+', ' ', 'g'))
