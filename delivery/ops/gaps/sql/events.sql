-- query: Bounds
-- Since when the history tells everything, whether it still begins at its first batch, where events and history end, and the time
-- before which no mark that is not visible now can have noted its batch: they are
-- given far less than these minutes.
SELECT (SELECT d.published_at FROM {schema}.outbox_deliveries AS d ORDER BY d.published_at LIMIT 1),
       (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e),
       (SELECT coalesce(max(d.id), 0) FROM {schema}.outbox_deliveries AS d),
       clock_timestamp() - interval '10 minutes',
       s.partition_count,
       coalesce((SELECT min(d.id) = 1 FROM {schema}.outbox_deliveries AS d), false),
       s.events_from
  FROM {schema}.outbox_settings AS s

-- query: Events
-- Events between @after and @upto that are to be published and do not wait in the outbox.
SELECT e.sequence
  FROM {events} AS e
 WHERE e.sequence > @after AND e.sequence <= @upto
   AND NOT {audit_only}
   AND (@stream::text IS NULL OR e.stream_id = @stream)
   AND (@since::timestamptz IS NULL OR e.recorded_at >= @since)
   AND e.sequence NOT IN (SELECT o.global_sequence FROM {schema}.outbox AS o
                           WHERE o.partition_key = ANY (@partitions::smallint[]) AND o.global_sequence > @after AND o.global_sequence <= @upto
                              AND (@stream::text IS NULL OR o.stream_id = @stream))

-- query: Following
-- Where events go on behind @after, up to @upto: between two parts of them lie sequences without end.
SELECT coalesce(min(e.sequence) - 1, @upto) FROM {events} AS e WHERE e.sequence > @after AND e.sequence <= @upto

-- query: Suspects
-- Which of @sequences have, in one snapshot, neither a pointer nor a history row
-- that is younger than @recent, and were not given up by an operator: of that the history
-- forgets, and the audit does not. Older history rows were read before. Each pointer
-- is looked up by itself, however many others there are.
WITH asked AS MATERIALIZED (SELECT s AS sequence FROM unnest(@sequences::bigint[]) AS s),
     known AS MATERIALIZED (
       SELECT s.sequence
         FROM {schema}.outbox_deliveries AS d
        -- include: messages
        WHERE d.published_at >= @recent
          AND d.first_sequence <= (SELECT max(sequence) FROM asked) AND d.last_sequence >= (SELECT min(sequence) FROM asked)
          -- include: not_lost
        UNION ALL
       SELECT u.sequence::bigint
         FROM {schema}.outbox_audit AS a
        CROSS JOIN LATERAL jsonb_array_elements_text(a.target -> 'sequences') AS u (sequence)
        WHERE a.action IN ('dead.skip', 'dead.discard', 'scheduled.cancel')
          AND u.sequence::bigint BETWEEN (SELECT min(sequence) FROM asked) AND (SELECT max(sequence) FROM asked))
SELECT e.sequence, e.stream_id, e.event_id, e.stream_version, coalesce({routing_key}, e.stream_id)
  FROM (SELECT a.sequence FROM asked AS a EXCEPT SELECT k.sequence FROM known AS k) AS left_over
  JOIN {events} AS e USING (sequence)
  LEFT JOIN LATERAL (
         SELECT true AS waits
           FROM {schema}.outbox AS o
          WHERE o.partition_key = ANY (@partitions::smallint[]) AND o.global_sequence = e.sequence
          LIMIT 1) AS pointer ON true
 WHERE NOT {audit_only}
   AND pointer.waits IS NULL
 ORDER BY e.sequence

-- query: Pointers
-- The next pointers behind (@partition, @after), and whether their events are there.
SELECT p.partition_key, p.global_sequence, p.stream_id, e.sequence IS NOT NULL
  FROM (SELECT o.partition_key, o.global_sequence, o.stream_id
          FROM {schema}.outbox AS o
         WHERE (o.partition_key, o.global_sequence) > (@partition::int, @after::bigint)
         ORDER BY o.partition_key, o.global_sequence
         LIMIT @limit) AS p
  LEFT JOIN {events} AS e ON e.sequence = p.global_sequence
 ORDER BY p.partition_key, p.global_sequence

-- query: Versions
-- The next events behind version @version of stream @stream, by stream and version: those that
-- do not follow the one before them, and the page's last one.
SELECT v.stream_id, v.stream_version, v.before, v.sequence, v.key, v.n
  FROM (SELECT p.stream_id, p.stream_version, p.sequence, p.key,
               CASE WHEN lag(p.stream_id, 1, @stream::text) OVER w = p.stream_id THEN lag(p.stream_version, 1, @version::bigint) OVER w ELSE 0 END AS before,
               row_number() OVER w AS n, count(*) OVER () AS total
          FROM (SELECT e.stream_id, e.stream_version, e.sequence, coalesce({routing_key}, e.stream_id) AS key
                  FROM {events} AS e
                 WHERE (e.stream_id, e.stream_version) > (@stream::text, @version::bigint)
                   AND (@only::text IS NULL OR e.stream_id = @only)
                 ORDER BY e.stream_id, e.stream_version
                 LIMIT @limit) AS p
        WINDOW w AS (ORDER BY p.stream_id, p.stream_version)) AS v
 WHERE v.stream_version <> v.before + 1 OR v.n = v.total
 ORDER BY v.stream_id, v.stream_version

-- query: Unknown
-- Which messages, by their place in the arrays, name an event that is not there, and was not dropped with its part.
SELECT u.place, e.event_id
  FROM unnest(@sequences::bigint[], @ids::uuid[]) WITH ORDINALITY AS u (sequence, id, place)
  LEFT JOIN {events} AS e ON e.sequence = u.sequence
 WHERE e.event_id IS DISTINCT FROM u.id
   AND u.sequence >= (SELECT s.events_from FROM {schema}.outbox_settings AS s)

-- query: Enqueue
-- Pointer rows for the events, as far as they have none by now, in front of what
-- waits in their streams. Nothing is inserted when the number of partitions is not
-- @count any more.
INSERT INTO {schema}.outbox (global_sequence, partition_key, generation, parked, blocked, stream_id, topic)
SELECT e.sequence, n.partition_key, n.generation, true,
       row_number() OVER (PARTITION BY n.partition_key, e.stream_id ORDER BY e.sequence) > 1
       OR EXISTS (SELECT FROM {schema}.outbox AS p
                   WHERE p.parked AND p.partition_key = n.partition_key AND p.stream_id = e.stream_id
                     AND p.global_sequence < e.sequence),
       e.stream_id, coalesce({topic}, 'default')
  FROM unnest(@partitions::smallint[], @sequences::bigint[], @generations::int[]) AS n (partition_key, sequence, generation)
  JOIN {events} AS e ON e.sequence = n.sequence
 CROSS JOIN {schema}.outbox_settings AS s
 WHERE s.partition_count = @count
RETURNING global_sequence

-- query: HistoryEnd
-- The last batch of the page that History reads, and whether there is one.
SELECT max(p.id), count(*)
  FROM (SELECT h.id
          -- include: page
       ) AS p

-- query: History
-- A page of the history behind the batch @after: what was settled between @low and @high, and
-- where in the stream. What the stream lost afterwards was queued again.
SELECT d.id, d.partition_key, s.sequence,
       -- include: position
       AS stream_sequence,
       coalesce((d.generations ->> s.sequence::text)::int, 0)
  FROM (SELECT h.*
          -- include: page
       ) AS d
 -- include: messages
 WHERE s.sequence BETWEEN @low AND @high
   -- include: not_lost
 ORDER BY d.id

-- query: Deliveries
-- Everything the history says of @sequences, the oldest delivery first, and whether they wait in the
-- outbox.
WITH asked AS MATERIALIZED (SELECT DISTINCT s AS sequence FROM unnest(@sequences::bigint[]) AS s)
SELECT a.sequence, e.stream_id, e.event_id, e.stream_version, coalesce({routing_key}, e.stream_id),
       EXISTS (SELECT FROM {schema}.outbox AS o WHERE o.partition_key = ANY (@partitions::smallint[]) AND o.global_sequence = a.sequence),
       coalesce(h.positions, '{}'), coalesce(h.generation, 0), coalesce(h.published_at, '-infinity')
  FROM asked AS a
  JOIN {events} AS e ON e.sequence = a.sequence
  LEFT JOIN (SELECT s.sequence,
                    array_agg(
                              -- include: position
                              ORDER BY d.id) AS positions,
                    max(coalesce((d.generations ->> s.sequence::text)::int, 0)) AS generation,
                    max(d.published_at) AS published_at
               FROM {schema}.outbox_deliveries AS d
              -- include: messages
              WHERE d.first_sequence <= (SELECT max(sequence) FROM asked) AND d.last_sequence >= (SELECT min(sequence) FROM asked)
                AND s.sequence IN (SELECT sequence FROM asked)
              GROUP BY s.sequence) AS h ON h.sequence = a.sequence
 ORDER BY a.sequence

-- fragment: page
          FROM {schema}.outbox_deliveries AS h
         WHERE h.id > @after AND h.first_sequence <= @high AND h.last_sequence >= @low
         ORDER BY h.id
         LIMIT @limit

-- fragment: messages
-- The messages s of the batch d.
 CROSS JOIN LATERAL unnest(
         coalesce(d.sequences, ARRAY(SELECT generate_series(d.first_sequence, d.last_sequence))),
         d.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)

-- fragment: position
-- Where the message s of the batch d lies in the stream.
       CASE WHEN d.stream_sequences IS NULL THEN d.first_stream_sequence + s.position - 1 ELSE s.stream_sequence END

-- fragment: not_lost
-- The stream did not lose it afterwards.
   AND (d.lost_after IS NULL
        OR coalesce(
           -- include: position
           <= d.lost_after, true))
