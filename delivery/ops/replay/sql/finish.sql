-- Ends a run, or the replay. A cancellation ($2 is NULL) asks for no runner.
UPDATE {schema}.outbox_replays
   SET state = $3, runner = NULL, waiting_for = NULL, updated_at = clock_timestamp(),
       finished_at = CASE WHEN $3 IN ('done', 'cancelled') THEN clock_timestamp() END
 WHERE id = $1 AND ($2::uuid IS NULL AND state NOT IN ('done', 'cancelled') OR runner = $2 AND state = 'running')
