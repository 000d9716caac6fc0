-- Whoever runs a replay puts its id into the row; an older runner's steps find
-- another one there.
UPDATE {schema}.outbox_replays
   SET state = 'running', runner = $2, generation = $3, waiting_for = NULL, updated_at = clock_timestamp()
 WHERE id = $1
