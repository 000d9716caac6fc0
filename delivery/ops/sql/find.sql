SELECT e.sequence FROM {events} AS e WHERE e.event_id = $1
