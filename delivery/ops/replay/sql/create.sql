INSERT INTO {schema}.outbox_replays
       (kind, destination, actor, selection, reason, prefix, stream, position, last_sequence, generation, state, expected)
VALUES ($1, $2, $3, $4, nullif($5, ''), nullif($6, ''), nullif($7, ''), $8, $9, $10, $11, $12)
RETURNING id
