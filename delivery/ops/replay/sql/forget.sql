DELETE FROM {schema}.outbox_replay_sequences WHERE replay_id = $1
