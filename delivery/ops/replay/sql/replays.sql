-- query: Jobs
-- Replays with a number below @below, or the one of number @id; the newest first.
SELECT r.id, r.kind, r.destination, r.state, r.actor, coalesce(r.reason, ''), r.selection, coalesce(r.prefix, ''), coalesce(r.stream, ''),
       r.position, r.last_sequence, r.selected, r.replayed, r.gone, r.failed, r.stream_sequence, r.generation,
       r.created_at, r.updated_at, r.finished_at, coalesce(r.waiting_for, ''), coalesce(r.last_error, ''),
       CASE WHEN isfinite(r.updated_at) THEN greatest(clock_timestamp() - r.updated_at, '0') ELSE '0' END, r.expected, CASE WHEN r.rate BETWEEN 0 AND 1e9 THEN r.rate ELSE 0 END
  FROM {schema}.outbox_replays AS r
 WHERE (@below::bigint IS NULL OR r.id < @below) AND (@id::bigint IS NULL OR r.id = @id)
 ORDER BY r.id DESC
 LIMIT @limit

-- query: LockReplays
-- Whoever gives out a generation waits for whoever else does; runners do not.
LOCK TABLE {schema}.outbox_replays IN SHARE UPDATE EXCLUSIVE MODE

-- query: Generation
-- The lowest multiple of 100 above every generation that anything has. A replay that was
-- cancelled before it queued anything has none, nor has one that was refused.
SELECT 100 * (1 + greatest(
         coalesce((SELECT max(r.generation) FROM {schema}.outbox_replays AS r
                    WHERE NOT (r.state = 'cancelled' AND (r.destination = 'live' AND r.replayed = 0 OR coalesce(r.expected <> r.selected, false)))), 0),
         coalesce((SELECT max(o.generation) FROM {schema}.outbox AS o WHERE o.generation > 0), 0),
         coalesce((SELECT max(g.value::int)
                     FROM {schema}.outbox_deliveries AS d
                    CROSS JOIN LATERAL jsonb_each_text(d.generations) AS g (key, value)
                    WHERE d.generations IS NOT NULL), 0)) / 100)

-- query: Create
INSERT INTO {schema}.outbox_replays
       (kind, destination, actor, selection, reason, prefix, stream, position, last_sequence, generation, state, expected, rate)
VALUES (@kind, @destination, @actor, @selection, nullif(@reason, ''), nullif(@prefix, ''), nullif(@stream, ''), @position, @last, @generation, @state, @expected, nullif(@rate::float8, 0))
RETURNING id

-- query: Choose
INSERT INTO {schema}.outbox_replay_sequences (replay_id, sequence)
SELECT @id, s FROM unnest(@sequences::bigint[]) AS s

-- query: Forget
DELETE FROM {schema}.outbox_replay_sequences WHERE replay_id = @id

-- query: SetSelected
UPDATE {schema}.outbox_replays SET selected = @selected, updated_at = clock_timestamp() WHERE id = @id AND selected IS NULL

-- query: Touch
-- Who counts is not dead.
UPDATE {schema}.outbox_replays SET updated_at = clock_timestamp() WHERE id = @id AND state = 'running'

-- query: Take
-- Whoever runs a replay puts its id into the row; an older runner's steps find
-- another one there. Who serves (@served) takes what waits for that and what somebody was killed at;
-- what a command takes is the command's.
UPDATE {schema}.outbox_replays
   SET state = 'running', runner = @runner, generation = @generation, waiting_for = NULL, updated_at = clock_timestamp(),
       rate = CASE WHEN @served::boolean THEN rate END
 WHERE id = @id AND state NOT IN ('done', 'cancelled')
   AND (NOT @served::boolean
        OR rate IS NOT NULL AND (state IN ('planned', 'paused') OR state = 'running' AND updated_at < clock_timestamp() - @dead::interval
                             OR state = 'running' AND updated_at = ANY (@silent::timestamptz[])))

-- query: Ahead
-- Replays that somebody runs, or that were begun before the clock stepped back and nobody runs any more.
SELECT id, updated_at FROM {schema}.outbox_replays WHERE rate IS NOT NULL AND state = 'running' AND updated_at > clock_timestamp() + @steady::interval

-- query: Due
-- The replay that has waited longest for one who serves; none while a live one runs.
SELECT r.id
  FROM {schema}.outbox_replays AS r
 WHERE r.rate IS NOT NULL
   AND (r.state IN ('planned', 'paused') OR r.state = 'running' AND r.updated_at < clock_timestamp() - @dead::interval
        OR r.state = 'running' AND r.updated_at = ANY (@silent::timestamptz[]))
   AND NOT EXISTS (SELECT FROM {schema}.outbox_replays AS o WHERE o.destination = 'live' AND o.state = 'running' AND o.id <> r.id)
 ORDER BY r.updated_at, r.id
 LIMIT 1

-- query: Hold
-- Begins a step: the row stays locked to its end.
SELECT r.position, r.generation
  FROM {schema}.outbox_replays AS r
 WHERE r.id = @id AND r.runner = @runner AND r.state = 'running'
   FOR UPDATE

-- query: Advance
UPDATE {schema}.outbox_replays
   SET position        = @position,
       replayed        = replayed + @replayed,
       gone            = gone + @gone,
       failed          = failed + @failed,
       stream_sequence = greatest(stream_sequence, @stream),
       last_error      = coalesce(nullif(@error, ''), last_error),
       waiting_for     = nullif(@waiting, ''),
       updated_at      = clock_timestamp()
 WHERE id = @id AND runner = @runner AND state = 'running'

-- query: Finish
-- Ends a run, or the replay. A cancellation (@runner is NULL) asks for no runner.
UPDATE {schema}.outbox_replays
   SET state = @state, runner = NULL, waiting_for = NULL, last_error = coalesce(nullif(@error::text, ''), last_error), updated_at = clock_timestamp(),
       finished_at = CASE WHEN @state IN ('done', 'cancelled') THEN clock_timestamp() END
 WHERE id = @id AND (@runner::uuid IS NULL AND state NOT IN ('done', 'cancelled') OR runner = @runner AND state = 'running')

-- query: ReadyBelow
SELECT EXISTS (SELECT FROM {schema}.outbox AS o WHERE NOT o.parked AND o.partition_key = ANY (@partitions::smallint[]) AND o.global_sequence <= @last)

-- query: Backlog
-- How many rows workers could publish now, of new ones, of replayed ones and of those that were dead or scheduled, each
-- up to @most. What waits behind a failed or dead row is not theirs to publish.
SELECT (SELECT count(*) FROM (SELECT FROM {schema}.outbox AS o WHERE NOT o.parked LIMIT @most) AS ready)
     + (SELECT count(*)
          FROM (SELECT FROM {schema}.outbox AS o
                 WHERE o.parked AND o.replay_id IS NOT NULL AND o.dead_at IS NULL AND o.attempts = 0
                   AND NOT (o.blocked
                            AND EXISTS (SELECT FROM {schema}.outbox AS e
                                         WHERE e.parked AND e.partition_key = o.partition_key AND e.stream_id = o.stream_id
                                           AND e.global_sequence < o.global_sequence
                                           AND (e.dead_at IS NOT NULL OR e.attempts > 0)))
                 LIMIT @most) AS replayed)
     + (SELECT count(*)
          FROM (SELECT FROM {schema}.outbox AS o
                 WHERE o.parked AND o.replay_id IS NULL AND NOT o.blocked AND o.dead_at IS NULL AND o.attempts = 0
                   AND (o.scheduled_for IS NULL OR o.available_at <= clock_timestamp())
                 LIMIT @most) AS revived)

-- query: Occupied
-- Which of the sequences are in the outbox, and why they are still there.
SELECT o.global_sequence,
       {schema}.outbox_state(o.dead_at, o.blocked, o.attempts, o.parked, o.available_at, o.scheduled_for)
  FROM unnest(@partitions::smallint[], @sequences::bigint[]) AS s (partition_key, sequence)
  JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
 ORDER BY o.global_sequence
 LIMIT 1

-- query: Enqueue
-- Pointer rows of generation @generation, where the relay looks for rows that come out of
-- turn. The first row of a stream leads it, any other waits behind that. Nothing
-- is inserted when the number of partitions is not @count any more.
INSERT INTO {schema}.outbox (global_sequence, partition_key, generation, replay_id, parked, blocked, stream_id, topic)
SELECT n.sequence, n.partition_key, @generation, @id, true,
       row_number() OVER (PARTITION BY n.partition_key, n.stream_id ORDER BY n.sequence) > 1
       OR EXISTS (SELECT FROM {schema}.outbox AS p
                   WHERE p.parked AND p.partition_key = n.partition_key AND p.stream_id = n.stream_id
                     AND p.global_sequence < n.sequence),
       n.stream_id, n.topic
  FROM unnest(@partitions::smallint[], @sequences::bigint[], @streams::text[], @topics::text[]) AS n (partition_key, sequence, stream_id, topic)
 CROSS JOIN {schema}.outbox_settings AS s
 WHERE s.partition_count = @count

-- query: Chosen
-- The next rows that were chosen for retry @id behind @after, at most @limit, and where
-- they lie; those that are not dead or failed any more without a place.
SELECT x.sequence, o.partition_key
  FROM (SELECT c.sequence FROM {schema}.outbox_replay_sequences AS c
         WHERE c.replay_id = @id AND c.sequence > @after
         ORDER BY c.sequence
         LIMIT @limit) AS x
  LEFT JOIN {schema}.outbox AS o
         ON o.partition_key = ANY (@partitions::smallint[]) AND o.global_sequence = x.sequence AND o.parked
        AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
 ORDER BY x.sequence

-- query: Retry
-- Dead and failed rows begin anew where they are; the answer is what they were.
WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error
         FROM unnest(@partitions::smallint[], @sequences::bigint[]) AS s (partition_key, sequence)
         JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
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
