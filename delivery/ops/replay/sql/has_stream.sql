SELECT EXISTS (SELECT FROM {events} AS e WHERE e.stream_id = $1)
