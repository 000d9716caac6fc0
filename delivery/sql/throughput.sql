-- The last $1 minutes, the running one included, with zeros where nothing was.
-- The table holds days: each minute is looked up by the index, whatever the
-- planner thinks of the others. It knows how many integers a series has, and of
-- timestamps it does not: there it would expect a thousand and compile the query.
SELECT m.minute, coalesce(t.published, 0)::bigint, coalesce(t.failed, 0)::bigint,
       coalesce(t.retried, 0)::bigint, coalesce(t.skipped, 0)::bigint
  FROM (SELECT date_trunc('minute', statement_timestamp()) - ago * interval '1 minute' AS minute
          FROM generate_series(0, $1::int - 1) AS ago) AS m
 CROSS JOIN LATERAL (
         SELECT sum(b.published) AS published, sum(b.failed) AS failed, sum(b.retried) AS retried, sum(b.skipped) AS skipped
           FROM {schema}.outbox_throughput AS b
          WHERE b.minute = m.minute) AS t
 ORDER BY m.minute
