-- The first row of each partition that can be published, from a sequence on before
-- which there was none ($1, $2), and when it became available; of the parked rows
-- whose time has come the first one of the first 100. Never more than a few rows are read,
-- whatever the backlog: dead rows, which a look from the beginning would wade
-- through, lie before that sequence. Where nothing waits, what was delivered is
-- where the next look begins.
SELECT l.partition_key, coalesce(first.global_sequence, greatest(l.delivered, mine.start)),
       least(first.available_at, parked.available_at) IS NOT NULL,
       coalesce(s.at - least(first.available_at, parked.available_at), interval '0'), s.at
  FROM {schema}.outbox_partitions AS l
 CROSS JOIN (SELECT clock_timestamp() AS at) AS s
  LEFT JOIN unnest($1::smallint[], $2::bigint[]) AS mine (partition_key, start) USING (partition_key)
  LEFT JOIN LATERAL (
         SELECT r.global_sequence, r.available_at
           FROM {schema}.outbox_ready AS r
          WHERE r.partition_key = l.partition_key AND r.global_sequence >= coalesce(mine.start, 0)
          ORDER BY r.global_sequence
          LIMIT 1) AS first ON true
  LEFT JOIN LATERAL (
         SELECT min(p.available_at) AS available_at
           FROM (SELECT d.available_at, d.attempts
                   FROM {schema}.outbox_parked AS d
                  WHERE d.partition_key = l.partition_key AND NOT d.blocked AND d.dead_at IS NULL AND d.available_at <= s.at
                  ORDER BY d.available_at
                  LIMIT 100) AS p
          WHERE p.attempts = 0) AS parked ON true
 ORDER BY l.partition_key
