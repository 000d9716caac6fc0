SELECT l.partition_key,
       coalesce(ready.pending, 0) + coalesce(parked.pending, 0),
       coalesce(parked.failed, 0), coalesce(parked.blocked, 0), coalesce(parked.dead, 0), coalesce(parked.scheduled, 0),
       coalesce(parked.streams, 0),
       coalesce(s.at - least(first.available_at, parked.oldest), interval '0'),
       coalesce(first.global_sequence, l.delivered),
       s.at
  FROM {schema}.outbox_partitions AS l
 CROSS JOIN (SELECT clock_timestamp() AS at) AS s
  LEFT JOIN (SELECT partition_key, count(*) AS pending
               FROM {schema}.outbox_ready
              GROUP BY partition_key) AS ready USING (partition_key)
  LEFT JOIN LATERAL (
         SELECT r.global_sequence, r.available_at
           FROM {schema}.outbox_ready AS r
          WHERE r.partition_key = l.partition_key
          ORDER BY r.global_sequence
          LIMIT 1) AS first ON true
  LEFT JOIN (SELECT partition_key,
                    count(*) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts = 0 AND available_at <= clock_timestamp()) AS pending,
                    count(*) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts > 0)  AS failed,
                    count(*) FILTER (WHERE dead_at IS NULL AND blocked)                       AS blocked,
                    count(DISTINCT stream_id) FILTER (WHERE dead_at IS NULL AND blocked)      AS streams,
                    count(*) FILTER (WHERE dead_at IS NOT NULL)                               AS dead,
                    count(*) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts = 0 AND available_at > clock_timestamp()) AS scheduled,
                    min(available_at) FILTER (WHERE dead_at IS NULL AND NOT blocked AND attempts = 0 AND available_at <= clock_timestamp()) AS oldest
               FROM {schema}.outbox_parked
              GROUP BY partition_key) AS parked USING (partition_key)
 ORDER BY l.partition_key
