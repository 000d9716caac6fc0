INSERT INTO {schema}.inbox_streams (consumer, stream)
SELECT $1, w.stream
  FROM unnest($2::text[]) AS w (stream)
 WHERE NOT EXISTS (SELECT FROM {schema}.inbox_streams AS s WHERE s.consumer = $1 AND s.stream = w.stream)
 ORDER BY w.stream
    ON CONFLICT DO NOTHING
