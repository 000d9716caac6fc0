-- query: Now
-- The time, and since when the partitions are what they are.
SELECT clock_timestamp(), coalesce(s.resized_at::text, '') FROM {schema}.outbox_settings AS s

-- query: Selected
-- Looks at the next @step parked rows, or those of them that failed or died, in the partitions up to @last and
-- behind (@partition, @after): tells those that the selection chooses, of those that did not die
-- since @began, and the last one looked at. They are looked at again when their
-- partitions are locked. The filter is outside of the part that is limited, as in
-- ReadyUp.
-- include: selected
                   -- include: troubled
-- include: selected_end

-- query: SelectedParked
-- include: selected
                   AND o.parked
-- include: selected_end

-- query: Causes
-- Looks at the next @step rows that failed or died, as Selected does, and tells what those died of that the filter chooses, each cause with
-- its lowest message; one more line without a count is the last row looked at, so that the caller knows how far it came.
WITH looked AS MATERIALIZED (
       SELECT o.*
         FROM {schema}.outbox AS o
        WHERE (o.partition_key, o.global_sequence) > (@partition::smallint, @after::bigint)
          AND o.partition_key <= @last
              -- include: troubled
        ORDER BY o.partition_key, o.global_sequence
        LIMIT @step),
     chosen AS MATERIALIZED (
       SELECT o.*, coalesce(
              -- include: family
              , '') AS family, coalesce(o.failures -> -1 ->> 'class', '') AS class
         FROM looked AS o
        WHERE o.dead_at NOT BETWEEN @began AND clock_timestamp()
              -- include: asked
       )
SELECT c.topic, coalesce(e.event_type, ''), c.family, count(*), min(c.class), max(c.class), min(c.dead_at), max(c.dead_at),
       min(c.global_sequence), (array_agg(left(coalesce(c.last_error, ''), 300) ORDER BY c.global_sequence))[1], NULL::smallint
  FROM chosen AS c
  LEFT JOIN LATERAL (SELECT e.event_type::text FROM {events} AS e WHERE e.sequence = c.global_sequence LIMIT 1) AS e ON true
 GROUP BY 1, 2, 3
 UNION ALL
(SELECT '', '', '', 0, '', '', NULL, NULL, w.global_sequence, '', w.partition_key
   FROM looked AS w
  ORDER BY w.partition_key, w.global_sequence
 OFFSET @step - 1)

-- query: Requeue
-- Rows of the state @state begin anew where they are; the answer is what they were.
-- The first row of a stream leads it, any other waits behind that.
WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error
         FROM unnest(@partitions::smallint[], @sequences::bigint[]) AS s (partition_key, sequence)
         JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND
              -- include: state
              = @state
          FOR UPDATE OF o),
     changed AS (
       UPDATE {schema}.outbox AS o
          SET attempts     = 0,
              generation   = o.generation + 1,
              dead_at      = NULL,
              last_error   = NULL,
              available_at = clock_timestamp(),
              blocked      = EXISTS (SELECT FROM {schema}.outbox AS f
                                      WHERE f.parked
                                        AND f.partition_key = o.partition_key
                                        AND f.stream_id = o.stream_id
                                        AND f.global_sequence < o.global_sequence)
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM chosen
 ORDER BY partition_key, global_sequence

-- query: Settle
-- Rows of the state @state go and are recorded as settled without a message, with @discarded as
-- discarded; the answer is what they were. Of those that wait for their time only
-- the ones that Hold keeps from the workers, for this command and long enough to commit.
WITH gone AS (
       DELETE FROM {schema}.outbox AS o
        USING unnest(@partitions::smallint[], @sequences::bigint[], @held::timestamptz[]) AS s (partition_key, sequence, held)
        WHERE o.parked AND o.partition_key = s.partition_key AND o.global_sequence = s.sequence
          AND
              -- include: state
              = @state AND (@state <> 'scheduled' OR o.available_at = s.held AND s.held > clock_timestamp() + interval '1 minute')
    RETURNING o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error),
     history AS (
       INSERT INTO {schema}.outbox_deliveries
              (partition_key, lease_epoch, first_sequence, last_sequence, sequences, stream_sequences,
               skipped, discarded, attempts, generations, published_at, message_count)
       SELECT gone.partition_key, coalesce(max(l.lease_epoch), 0), min(global_sequence), max(global_sequence),
              CASE WHEN max(global_sequence) - min(global_sequence) + 1 > count(*)
                   THEN array_agg(global_sequence ORDER BY global_sequence) END,
              array_fill(NULL::bigint, ARRAY[count(*)::int]),
              array_agg(global_sequence ORDER BY global_sequence),
              CASE WHEN @discarded::boolean THEN array_agg(global_sequence ORDER BY global_sequence) END,
              jsonb_object_agg(global_sequence, attempts) FILTER (WHERE attempts > 0),
              jsonb_object_agg(global_sequence, generation) FILTER (WHERE generation > 0),
              clock_timestamp(), 0
         FROM gone LEFT JOIN {schema}.outbox_partitions AS l ON l.partition_key = gone.partition_key
        GROUP BY gone.partition_key),
     counted AS (
       INSERT INTO {schema}.outbox_throughput AS t (minute, partition_key, skipped)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, count(*)
         FROM gone
        GROUP BY partition_key
       ON CONFLICT (minute, partition_key) DO UPDATE SET skipped = t.skipped + EXCLUDED.skipped)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM gone
 ORDER BY partition_key, global_sequence

-- query: Waiting
-- How many of these rows wait behind an earlier dead one of their stream.
SELECT count(*)
  FROM unnest(@partitions::smallint[], @sequences::bigint[], @streams::text[]) AS s (partition_key, sequence, stream_id)
 WHERE EXISTS (SELECT FROM {schema}.outbox AS d
                WHERE d.parked
                  AND d.partition_key = s.partition_key
                  AND d.stream_id = s.stream_id
                  AND d.global_sequence < s.sequence
                  AND d.dead_at IS NOT NULL)

-- query: Hold
-- Rows that wait for their time wait five minutes at least, so that no worker begins with them, and go on
-- by themselves where the command dies; the answer is what they wait for by rights, and until when they are held.
WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, coalesce(o.scheduled_for, o.available_at) AS until
         FROM unnest(@partitions::smallint[], @sequences::bigint[]) AS s (partition_key, sequence)
         JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND
              -- include: state
              = 'scheduled'
          FOR UPDATE OF o),
     held AS (
       UPDATE {schema}.outbox AS o
          SET available_at = greatest(o.available_at, clock_timestamp() + interval '5 minutes')
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence
    RETURNING o.partition_key, o.global_sequence, chosen.until, o.available_at)
SELECT partition_key, global_sequence, CASE WHEN isfinite(until) THEN until END, available_at
  FROM held

-- query: Unhold
-- Held rows wait for what they waited for.
UPDATE {schema}.outbox AS o
   SET available_at = s.available_at
  FROM unnest(@partitions::smallint[], @sequences::bigint[], @held::timestamptz[], @until::timestamptz[]) AS s (partition_key, sequence, held, available_at)
 WHERE o.parked AND o.partition_key = s.partition_key AND o.global_sequence = s.sequence AND o.available_at = s.held

-- query: Move
-- Held rows wait for another time; the answer is what they were.
WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error
         FROM unnest(@partitions::smallint[], @sequences::bigint[], @held::timestamptz[]) AS s (partition_key, sequence, held)
         JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND o.available_at = s.held AND s.held > clock_timestamp() + interval '1 minute'
          FOR UPDATE OF o),
     moved AS (
       UPDATE {schema}.outbox AS o
          SET available_at = @at, scheduled_for = @at
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM chosen
 ORDER BY partition_key, global_sequence

-- fragment: selected
SELECT w.partition_key, w.global_sequence, w.chosen, w.nth = @step
  FROM (SELECT o.partition_key, o.global_sequence,
               row_number() OVER (ORDER BY o.partition_key, o.global_sequence) AS nth,
               coalesce(
                        -- include: state
                        = @state
                        AND (o.dead_at IS NULL OR o.dead_at NOT BETWEEN @began AND clock_timestamp())
                        -- include: asked
                        , false) AS chosen
          FROM (SELECT o.*
                  FROM {schema}.outbox AS o
                 WHERE (o.partition_key, o.global_sequence) > (@partition::smallint, @after::bigint)
                   AND o.partition_key <= @last

-- fragment: selected_end
                 ORDER BY o.partition_key, o.global_sequence
                 LIMIT @step) AS o) AS w
 WHERE w.chosen OR w.nth = @step
 ORDER BY w.partition_key, w.global_sequence
