UPDATE {schema}.outbox_replays
   SET position        = $3,
       replayed        = replayed + $4,
       gone            = gone + $5,
       failed          = failed + $6,
       stream_sequence = greatest(stream_sequence, $7),
       last_error      = coalesce(nullif($8, ''), last_error),
       waiting_for     = nullif($9, ''),
       updated_at      = clock_timestamp()
 WHERE id = $1 AND runner = $2 AND state = 'running'
