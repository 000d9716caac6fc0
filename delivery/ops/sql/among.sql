-- Which of the sequences $2 are in the outbox, and whether the filter chooses them.
-- Any partition may have them; each is looked up by itself, and the limit keeps the
-- planner from joining otherwise. The part that can be published has one index
-- alone; of the parked part the keys in question are given ($10, $11), and the
-- equality is written as two bounds in an order, so that no other index will do.
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
  FROM (SELECT r.*
          FROM unnest($2::bigint[]) AS w (sequence)
         CROSS JOIN LATERAL (
                 SELECT q.*
                   FROM {schema}.outbox AS q
                  WHERE NOT q.parked AND q.partition_key = ANY ($1::smallint[]) AND q.global_sequence = w.sequence
                  LIMIT 1) AS r
         UNION ALL
        SELECT p.*
          FROM unnest($10::smallint[], $11::bigint[]) AS k (partition_key, sequence)
         CROSS JOIN LATERAL (
                 SELECT q.*
                   FROM {schema}.outbox AS q
                  WHERE q.parked AND q.partition_key = k.partition_key
                    AND q.global_sequence >= k.sequence AND q.global_sequence <= k.sequence
                  ORDER BY q.global_sequence
                  LIMIT 1) AS p) AS o
