-- Since when the history tells everything, whether it still begins at its first batch, where events and history end, and the time
-- before which no mark that is not visible now can have noted its batch: they are
-- given far less than these minutes.
SELECT (SELECT d.published_at FROM {schema}.outbox_deliveries AS d ORDER BY d.published_at LIMIT 1),
       (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e),
       (SELECT coalesce(max(d.id), 0) FROM {schema}.outbox_deliveries AS d),
       clock_timestamp() - interval '10 minutes',
       s.partition_count,
       coalesce((SELECT min(d.id) = 1 FROM {schema}.outbox_deliveries AS d), false)
  FROM {schema}.outbox_settings AS s
