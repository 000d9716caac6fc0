INSERT INTO {schema}.inbox_lanes (consumer, lane, position)
SELECT $1, lane, $3 FROM generate_series(0, $2::integer - 1) AS lane
    ON CONFLICT DO NOTHING
