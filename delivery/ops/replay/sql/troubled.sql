-- The selected rows that failed and were not published. An event that is missing
-- matches when nothing is asked of events.
SELECT o.global_sequence
  FROM {schema}.outbox AS o
  LEFT JOIN {events} AS e ON e.sequence = o.global_sequence
 WHERE o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
   AND o.global_sequence > $2 AND o.global_sequence <= $3
   AND $1::bigint IS NULL
   AND (e.sequence IS NULL AND coalesce($4::text, $5::text, $6::text, $7::text, $8::timestamptz::text, $9::timestamptz::text) IS NULL
        OR e.sequence IS NOT NULL AND {match})
