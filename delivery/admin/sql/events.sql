-- A page of the events, whatever became of them.
SELECT e.sequence, e.stream_id, coalesce({topic}, ''), e.event_id, e.event_type, e.stream_version, e.recorded_at
  FROM {events} AS e
 WHERE e.sequence {after} $1
   AND ($3::bigint[] IS NULL OR e.sequence = ANY ($3))
   AND ($4::text IS NULL OR e.stream_id = $4)
   AND ($5::text IS NULL OR {topic} = $5)
   AND ($6::text IS NULL OR e.event_type = $6)
   AND ($7::timestamptz IS NULL OR e.recorded_at >= $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at < $8)
 ORDER BY e.sequence {order}
 LIMIT $2
