UPDATE {schema}.outbox_replays SET selected = $2, updated_at = clock_timestamp() WHERE id = $1 AND selected IS NULL
