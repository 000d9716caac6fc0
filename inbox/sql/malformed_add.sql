INSERT INTO {schema}.inbox_malformed (consumer, stream_sequence, subject, reason, envelope, payload)
VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT DO NOTHING
