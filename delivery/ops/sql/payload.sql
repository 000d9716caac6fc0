SELECT {payload} FROM {events} AS e WHERE e.sequence = $1
