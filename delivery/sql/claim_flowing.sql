-- How every claim leaves out partitions that are paused: each is looked up by its key,
-- one by one. As a plain join, where statistics say that hardly any flows, PostgreSQL
-- goes through all that were asked for once for each of them.
 CROSS JOIN LATERAL (
         SELECT
           FROM {schema}.outbox_partitions AS l
          WHERE l.partition_key = mine.partition_key
            AND l.paused_at IS NULL
          LIMIT 1) AS flowing
