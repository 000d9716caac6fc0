-- The last $1 minutes, the running one included, with zeros where nothing was.
-- The table holds days: each minute is looked up by the index, whatever the
-- planner thinks of the others.
SELECT m.minute, coalesce(t.published, 0)::bigint, coalesce(t.failed, 0)::bigint,
       coalesce(t.retried, 0)::bigint, coalesce(t.skipped, 0)::bigint
  FROM generate_series(date_trunc('minute', clock_timestamp()) - ($1::int - 1) * interval '1 minute',
                       date_trunc('minute', clock_timestamp()), interval '1 minute') AS m (minute)
 CROSS JOIN LATERAL (
         SELECT sum(b.published) AS published, sum(b.failed) AS failed, sum(b.retried) AS retried, sum(b.skipped) AS skipped
           FROM {schema}.outbox_throughput AS b
          WHERE b.minute = m.minute) AS t
 ORDER BY m.minute
