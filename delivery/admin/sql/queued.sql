-- A page of the rows in the outbox: the first ones of every partition in key
-- order, and of those the first ones.
SELECT m.global_sequence, m.partition_key, m.stream_id, m.topic, m.state, m.attempts, m.generation,
       CASE WHEN isfinite(m.available_at) THEN m.available_at END, m.dead_at, coalesce(m.last_error, ''),
       e.event_id, e.event_type, e.stream_version, e.recorded_at
  FROM unnest($1::smallint[]) AS k (partition_key)
 CROSS JOIN LATERAL (
         SELECT o.*, {state} AS state
           FROM {schema}.outbox AS o
          WHERE o.partition_key = k.partition_key
            AND o.global_sequence {after} $2
            AND {state} = ANY ($4::text[])
            AND ($5::boolean IS NOT TRUE OR o.parked){trouble}
            AND ($6::text IS NULL OR o.stream_id = $6)
            AND ($7::text IS NULL OR o.topic = $7)
            AND ($8::bigint[] IS NULL OR o.global_sequence = ANY ($8))
            AND ($9::text IS NULL OR strpos(o.last_error, $9) > 0)
            AND ($10::text IS NULL AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
                 OR EXISTS (SELECT FROM {events} AS e
                             WHERE e.sequence = o.global_sequence
                               AND ($10 IS NULL OR e.event_type = $10)
                               AND ($11 IS NULL OR e.recorded_at >= $11)
                               AND ($12 IS NULL OR e.recorded_at < $12)))
          ORDER BY o.global_sequence {order}
          LIMIT $3) AS m
  LEFT JOIN {events} AS e ON e.sequence = m.global_sequence
 ORDER BY m.global_sequence {order}
 LIMIT $3
