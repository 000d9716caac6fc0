-- What the database knows of sequences that the stream's last record names: the
-- event, by its identity, and whether it still waits in the outbox; and whether one
-- that is missing should be there. $3 is where that record lies.
--
-- What was published is marked in a later transaction. So a database that knows the
-- mark has known the events: they were removed on purpose. One whose marks end before
-- that record has forgotten them. Where the partition knows of no record or of later
-- ones, as behind a resize or another stream, events below the lowest that is left
-- count as removed.
SELECT n.sequence, e.event_id, o.global_sequence IS NOT NULL,
       coalesce(o.generation, 0), coalesce(o.attempts, 0), coalesce(o.stream_id, ''), coalesce(o.topic, ''), coalesce(o.parked, false),
       CASE WHEN p.fence_sequence = $3::bigint                            THEN false
            WHEN p.fence_sequence > 0 AND p.fence_sequence < $3::bigint THEN true
            ELSE n.sequence >= (SELECT coalesce(min(h.sequence), 0) FROM {events} AS h) END
  FROM unnest($2::bigint[]) AS n (sequence)
  LEFT JOIN {events} AS e ON e.sequence = n.sequence
  LEFT JOIN {schema}.outbox_partitions AS p ON p.partition_key = $1
  LEFT JOIN {schema}.outbox AS o ON o.partition_key = $1 AND o.global_sequence = n.sequence
 ORDER BY n.sequence
