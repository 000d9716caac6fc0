-- Whoever gives out a generation waits for whoever else does; runners do not.
LOCK TABLE {schema}.outbox_replays IN SHARE UPDATE EXCLUSIVE MODE
