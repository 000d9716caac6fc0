-- How long events took from being recorded, or from the time for which they were
-- scheduled, to being known as published: the first
-- and the last event of the newest batches of the last five minutes, at most $1
-- batches. Messages of a later generation waited for a person and are left out.
-- (The clock in a subquery is asked once, so that the index bounds the scan.)
SELECT count(*),
       coalesce(percentile_cont(0.5)  WITHIN GROUP (ORDER BY s.seconds), 0),
       coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY s.seconds), 0)
  FROM (SELECT greatest(extract(epoch FROM d.published_at - greatest(e.recorded_at, (d.scheduled ->> v.sequence::text)::timestamptz)), 0)::float8 AS seconds
          FROM (SELECT b.first_sequence, b.last_sequence, b.published_at, b.scheduled
                  FROM {schema}.outbox_deliveries AS b
                 WHERE b.published_at > (SELECT clock_timestamp()) - interval '5 minutes' AND b.generations IS NULL AND b.message_count > 0
                 ORDER BY b.published_at DESC
                 LIMIT $1) AS d
         CROSS JOIN LATERAL (SELECT d.first_sequence UNION SELECT d.last_sequence) AS v (sequence)
          JOIN {events} AS e ON e.sequence = v.sequence) AS s
