-- The types of some events.
SELECT e.sequence, coalesce(e.event_type, '') FROM {events} AS e WHERE e.sequence = ANY ($1::bigint[])
