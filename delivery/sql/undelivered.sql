-- What the database knows of sequences that the stream's last record names: the
-- event, by its identity, and whether it still waits in the outbox.
SELECT n.sequence, e.event_id, o.global_sequence IS NOT NULL,
       coalesce(o.generation, 0), coalesce(o.attempts, 0), coalesce(o.stream_id, ''), coalesce(o.topic, ''), coalesce(o.parked, false),
       (SELECT coalesce(max(h.sequence), 0) FROM {events} AS h)
  FROM unnest($2::bigint[]) AS n (sequence)
  LEFT JOIN {events} AS e ON e.sequence = n.sequence
  LEFT JOIN {schema}.outbox AS o ON o.partition_key = $1 AND o.global_sequence = n.sequence
 ORDER BY n.sequence
