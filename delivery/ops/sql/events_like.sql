-- Events whose id lies between two, by the index of the ids.
SELECT e.event_id FROM {events} AS e WHERE e.event_id BETWEEN $1 AND $2 ORDER BY e.event_id LIMIT $3
