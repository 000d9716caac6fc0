-- The next rows of a selection behind ($1, $2), of those that were dead at $4
-- already. They are looked at again when their partitions are locked.
SELECT o.partition_key, o.global_sequence
  FROM {schema}.outbox AS o
 WHERE o.parked{trouble}
   AND (o.partition_key, o.global_sequence) > ($1::smallint, $2::bigint)
   AND {state} = $3
   AND (o.dead_at IS NULL OR o.dead_at <= $4)
   AND ($6::bigint[] IS NULL OR o.global_sequence = ANY ($6))
   AND ($7::smallint[] IS NULL OR o.partition_key = ANY ($7))
   AND ($8::text IS NULL OR o.stream_id = $8)
   AND ($9::text IS NULL OR o.topic = $9)
   AND ($10::text IS NULL OR strpos(o.last_error, $10) > 0)
   AND ($11::text IS NULL AND $12::timestamptz IS NULL AND $13::timestamptz IS NULL
        OR EXISTS (SELECT FROM {events} AS e
                    WHERE e.sequence = o.global_sequence
                      AND ($11 IS NULL OR e.event_type = $11)
                      AND ($12 IS NULL OR e.recorded_at >= $12)
                      AND ($13 IS NULL OR e.recorded_at < $13)))
 ORDER BY o.partition_key, o.global_sequence
 LIMIT $5
