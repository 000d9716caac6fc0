INSERT INTO {schema}.outbox_replay_sequences (replay_id, sequence)
SELECT $1, s FROM unnest($2::bigint[]) AS s
