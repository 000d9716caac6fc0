-- Which of the named sequences are in the outbox, and whether the filter chooses
-- them. They are found as in states.sql.
SELECT o.partition_key, o.global_sequence,
       coalesce({state} = ANY ($3::text[])
                AND ($4::text IS NULL OR o.stream_id = $4)
                AND ($5::text IS NULL OR o.topic = $5)
                AND ($6::text IS NULL OR strpos(o.last_error, $6) > 0)
                AND ($7::text IS NULL AND $8::timestamptz IS NULL AND $9::timestamptz IS NULL
                     OR (SELECT ($7 IS NULL OR e.event_type = $7)
                                AND ($8 IS NULL OR e.recorded_at >= $8)
                                AND ($9 IS NULL OR e.recorded_at < $9)
                           FROM {events} AS e
                          WHERE e.sequence = o.global_sequence)), false)
  FROM unnest($1::smallint[]) AS p (partition_key)
 CROSS JOIN unnest($2::bigint[]) AS w (sequence)
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM {schema}.outbox AS r
          WHERE r.partition_key = p.partition_key AND r.global_sequence >= w.sequence AND r.global_sequence <= w.sequence
          ORDER BY r.global_sequence
          LIMIT 1) AS o
