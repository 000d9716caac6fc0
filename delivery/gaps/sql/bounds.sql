-- Since when the history tells everything, and where the events end.
SELECT (SELECT d.published_at FROM {schema}.outbox_deliveries AS d ORDER BY d.published_at LIMIT 1),
       (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e),
       s.partition_count
  FROM {schema}.outbox_settings AS s
