INSERT INTO {schema}.inbox_consumers (consumer, lanes, stream, stream_created) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
