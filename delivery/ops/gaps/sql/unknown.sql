-- Which messages, by their place in the arrays, name an event that is not there.
SELECT u.place, e.event_id
  FROM unnest($1::bigint[], $2::uuid[]) WITH ORDINALITY AS u (sequence, id, place)
  LEFT JOIN {events} AS e ON e.sequence = u.sequence
 WHERE e.event_id IS DISTINCT FROM u.id
