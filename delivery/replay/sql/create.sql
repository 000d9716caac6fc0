INSERT INTO {schema}.outbox_replays
       (kind, destination, state, actor, selection, reason, prefix, stream, position, last_sequence, generation)
VALUES ($1, $2, 'planned', $3, $4, nullif($5, ''), nullif($6, ''), nullif($7, ''), $8, $9, $10)
RETURNING id
