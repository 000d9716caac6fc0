-- The named rows of the outbox, with their events. Each is found by its key, as in
-- among.sql.
SELECT o.global_sequence, o.partition_key, o.stream_id, o.topic, {state}, o.attempts, o.generation,
       CASE WHEN isfinite(o.available_at) THEN o.available_at END, o.dead_at, coalesce(o.last_error, ''),
       e.event_id, e.event_type, e.stream_version, e.recorded_at
  FROM unnest($1::smallint[], $2::bigint[]) AS k (partition_key, global_sequence)
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM {schema}.outbox AS r
          WHERE r.partition_key = k.partition_key AND r.global_sequence >= k.global_sequence AND r.global_sequence <= k.global_sequence
          ORDER BY r.global_sequence
          LIMIT 1) AS o
  LEFT JOIN LATERAL (
         SELECT e.event_id, e.event_type, e.stream_version, e.recorded_at
           FROM {events} AS e
          WHERE e.sequence = k.global_sequence
          LIMIT 1) AS e ON true
