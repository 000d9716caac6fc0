-- The last $1 minutes, the running one included, with zeros where nothing was.
SELECT m.minute, coalesce(sum(t.published), 0)::bigint, coalesce(sum(t.failed), 0)::bigint,
       coalesce(sum(t.retried), 0)::bigint, coalesce(sum(t.skipped), 0)::bigint
  FROM generate_series(date_trunc('minute', clock_timestamp()) - ($1::int - 1) * interval '1 minute',
                       date_trunc('minute', clock_timestamp()), interval '1 minute') AS m (minute)
  LEFT JOIN {schema}.outbox_throughput AS t ON t.minute = m.minute
 GROUP BY m.minute
 ORDER BY m.minute
