-- The next events of replay $1 behind $2 and up to $3, at most $11.
SELECT e.sequence, e.stream_id, coalesce({topic}, 'default'), coalesce({routing_key}, e.stream_id)
  FROM {events} AS e
 WHERE e.sequence > $2 AND e.sequence <= $3
   AND {match}
   AND {current}
   AND NOT EXISTS (SELECT FROM {schema}.outbox_replay_sequences AS x WHERE x.replay_id = $1 AND x.sequence = e.sequence)
 ORDER BY {order}
 LIMIT $11
