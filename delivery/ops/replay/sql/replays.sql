-- query: Jobs
-- Replays with a number below @below, or the one of number @id; the newest first.
SELECT r.id, r.kind, r.destination, r.state, r.actor, coalesce(r.reason, ''), r.selection, coalesce(r.prefix, ''), coalesce(r.stream, ''),
       r.position, r.last_sequence, r.selected, r.replayed, r.gone, r.failed, r.stream_sequence, r.generation,
       r.created_at, r.updated_at, r.finished_at, coalesce(r.waiting_for, ''), coalesce(r.last_error, ''),
       clock_timestamp() - r.updated_at, r.expected
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
       (kind, destination, actor, selection, reason, prefix, stream, position, last_sequence, generation, state, expected)
VALUES (@kind, @destination, @actor, @selection, nullif(@reason, ''), nullif(@prefix, ''), nullif(@stream, ''), @position, @last, @generation, @state, @expected)
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
-- another one there.
UPDATE {schema}.outbox_replays
   SET state = 'running', runner = @runner, generation = @generation, waiting_for = NULL, updated_at = clock_timestamp()
 WHERE id = @id

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
   SET state = @state, runner = NULL, waiting_for = NULL, updated_at = clock_timestamp(),
       finished_at = CASE WHEN @state IN ('done', 'cancelled') THEN clock_timestamp() END
 WHERE id = @id AND (@runner::uuid IS NULL AND state NOT IN ('done', 'cancelled') OR runner = @runner AND state = 'running')
