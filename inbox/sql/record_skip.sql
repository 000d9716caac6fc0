INSERT INTO {schema}.inbox_records (stream_key, version, event_id, generation, skipped, note)
VALUES ($1, $2, $3, $4, true, $5)
    ON CONFLICT DO NOTHING
