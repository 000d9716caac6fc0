-- Looks at the next $3 rows of each partition, in one of the outbox's two parts,
-- behind its own sequence: tells those
-- that the filter chooses, and the last one looked at, so that the caller knows
-- how far it came. The filter is asked outside of the part that is limited, and
-- what it asks of an event stays a subquery, so that no statistics make this read
-- more than those rows.
SELECT l.lane, w.global_sequence, w.chosen, w.nth = $3
  FROM unnest($1::smallint[], $2::bigint[]) WITH ORDINALITY AS l (partition_key, after, lane)
 CROSS JOIN LATERAL (
         SELECT o.global_sequence,
                row_number() OVER (ORDER BY o.global_sequence {order}) AS nth,
                coalesce({state} = ANY ($4::text[])
                         AND ($5::text IS NULL OR o.stream_id = $5)
                         AND ($6::text IS NULL OR o.topic = $6)
                         AND ($7::text IS NULL OR strpos(o.last_error, $7) > 0)
                         AND ($8::text IS NULL AND $9::timestamptz IS NULL AND $10::timestamptz IS NULL
                              OR (SELECT ($8 IS NULL OR e.event_type = $8)
                                         AND ($9 IS NULL OR e.recorded_at >= $9)
                                         AND ($10 IS NULL OR e.recorded_at < $10)
                                    FROM {events} AS e
                                   WHERE e.sequence = o.global_sequence)), false) AS chosen
           FROM (SELECT o.*
                   FROM {schema}.outbox AS o
                  WHERE o.partition_key = l.partition_key AND o.global_sequence {after} l.after{part}
                  ORDER BY o.global_sequence {order}
                  LIMIT $3) AS o) AS w
 WHERE w.chosen OR w.nth = $3
