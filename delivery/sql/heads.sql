-- The first rows of each partition that can be published, $3 at most, from a sequence on before which there was none
-- ($1, $2), and those among its first $3 parked rows whose time has come. Never more are read, whatever the backlog.
SELECT l.partition_key, h.global_sequence, h.topic, h.parked, coalesce(s.at - h.available_at, interval '0')
  FROM {schema}.outbox_partitions AS l
 CROSS JOIN (SELECT clock_timestamp() AS at) AS s
  LEFT JOIN unnest($1::smallint[], $2::bigint[]) AS mine (partition_key, start) USING (partition_key)
 CROSS JOIN LATERAL (
         (SELECT r.global_sequence, r.topic, r.available_at, false AS parked
            FROM {schema}.outbox_ready AS r
           WHERE r.partition_key = l.partition_key AND r.global_sequence >= coalesce(mine.start, 0)
           ORDER BY r.global_sequence
           LIMIT $3)
         UNION ALL
         SELECT p.global_sequence, p.topic, p.available_at, true
           FROM (SELECT d.global_sequence, d.topic, d.available_at, d.attempts
                   FROM {schema}.outbox_parked AS d
                  WHERE d.partition_key = l.partition_key AND NOT d.blocked AND d.dead_at IS NULL AND d.available_at <= s.at
                  ORDER BY d.available_at
                  LIMIT $3) AS p
          WHERE p.attempts = 0) AS h
