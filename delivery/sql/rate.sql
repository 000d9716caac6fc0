-- How many events a second were marked as published in the last ten seconds, or, where $1 batches are fewer than that, since the first
-- of the newest $1. (The clock in a subquery is asked once, so that the index bounds the scan.)
SELECT coalesce(sum(d.message_count), 0)::float8
       / CASE WHEN count(*) < $1 THEN 10 ELSE greatest(extract(epoch FROM clock_timestamp() - min(d.published_at)), 0.1)::float8 END
  FROM (SELECT b.message_count, b.published_at
          FROM {schema}.outbox_deliveries AS b
         WHERE b.published_at > (SELECT clock_timestamp()) - interval '10 seconds'
         ORDER BY b.published_at DESC
         LIMIT $1) AS d
