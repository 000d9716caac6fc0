INSERT INTO {schema}.inbox_records (stream_key, version, event_id, generation, result)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::integer[], $5::bytea[])
