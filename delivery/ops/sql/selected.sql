-- Looks at the next $6 parked rows, or those of them that failed or died, in the partitions up to $3 and
-- behind ($1, $2): tells those that the selection chooses, of those that were dead
-- at $5 already, and the last one looked at. They are looked at again when their
-- partitions are locked. The filter is outside of the part that is limited, as in
-- lane.sql.
SELECT w.partition_key, w.global_sequence, w.chosen, w.nth = $6
  FROM (SELECT o.partition_key, o.global_sequence,
               row_number() OVER (ORDER BY o.partition_key, o.global_sequence) AS nth,
               coalesce({state} = $4
                        AND (o.dead_at IS NULL OR o.dead_at <= $5)
                        AND ($7::text IS NULL OR o.stream_id = $7)
                        AND ($8::text IS NULL OR o.topic = $8)
                        AND ($9::text IS NULL OR strpos(o.last_error, $9) > 0)
                        AND ($10::text IS NULL AND $11::timestamptz IS NULL AND $12::timestamptz IS NULL
                             OR (SELECT ($10 IS NULL OR e.event_type = $10)
                                        AND ($11 IS NULL OR e.recorded_at >= $11)
                                        AND ($12 IS NULL OR e.recorded_at < $12)
                                   FROM {events} AS e
                                  WHERE e.sequence = o.global_sequence)), false) AS chosen
          FROM (SELECT o.*
                  FROM {schema}.outbox AS o
                 WHERE (o.partition_key, o.global_sequence) > ($1::smallint, $2::bigint)
                   AND o.partition_key <= $3{trouble}
                 ORDER BY o.partition_key, o.global_sequence
                 LIMIT $6) AS o) AS w
 WHERE w.chosen OR w.nth = $6
 ORDER BY w.partition_key, w.global_sequence
