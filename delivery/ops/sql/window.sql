-- Looks at the next $2 events, whatever became of them: tells those that the
-- filter chooses, and the last one.
SELECT w.sequence, w.stream_id, w.topic, w.event_id, w.event_type, w.stream_version, w.recorded_at, w.chosen, w.nth = $2
  FROM (SELECT e.*,
               row_number() OVER (ORDER BY e.sequence {order}) AS nth,
               coalesce(($3::text IS NULL OR e.stream_id = $3)
                        AND ($4::text IS NULL OR e.topic = $4)
                        AND ($5::text IS NULL OR e.event_type = $5)
                        AND ($6::timestamptz IS NULL OR e.recorded_at >= $6)
                        AND ($7::timestamptz IS NULL OR e.recorded_at < $7), false) AS chosen
          FROM (SELECT e.sequence, e.stream_id, coalesce({topic}, '') AS topic, e.event_id, e.event_type, e.stream_version, e.recorded_at
                  FROM {events} AS e
                 WHERE e.sequence {after} $1
                 ORDER BY e.sequence {order}
                 LIMIT $2) AS e) AS w
 WHERE w.chosen OR w.nth = $2
