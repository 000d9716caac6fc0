INSERT INTO {schema}.projection_streams (stream_id) VALUES ($1) ON CONFLICT DO NOTHING
