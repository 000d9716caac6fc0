-- One that has nothing parked before it, but still must wait for its turn, is due at once.
INSERT INTO {schema}.inbox_parked
       (consumer, stream_key, version, event_id, state, attempts, due_at, reason, subject, stream_sequence, envelope, payload)
SELECT $1, $2, $3, $4, $5, $6,
       CASE WHEN $5 = 'waiting'
            THEN CASE WHEN NOT EXISTS (SELECT FROM {schema}.inbox_parked AS p WHERE p.stream_key = $2 AND p.version <= $3)
                      THEN clock_timestamp() END
            ELSE clock_timestamp() + $7::interval END,
       $8, $9, $10, $11, $12
    ON CONFLICT DO NOTHING
