-- Who counts is not dead.
UPDATE {schema}.outbox_replays SET updated_at = clock_timestamp() WHERE id = $1 AND state = 'running'
