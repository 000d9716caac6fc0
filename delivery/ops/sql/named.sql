-- Those of the named events that the filter chooses.
SELECT e.sequence, e.stream_id, coalesce({topic}, ''), e.event_id, e.event_type, e.stream_version, e.recorded_at
  FROM {events} AS e
 WHERE e.sequence = ANY ($1::bigint[])
   AND ($2::text IS NULL OR e.stream_id = $2)
   AND ($3::text IS NULL OR {topic} = $3)
   AND ($4::text IS NULL OR e.event_type = $4)
   AND ($5::timestamptz IS NULL OR e.recorded_at >= $5)
   AND ($6::timestamptz IS NULL OR e.recorded_at < $6)
