-- Begins a step: the row stays locked to its end.
SELECT r.position, r.generation
  FROM {schema}.outbox_replays AS r
 WHERE r.id = $1 AND r.runner = $2 AND r.state = 'running'
   FOR UPDATE
