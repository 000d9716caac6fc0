-- The leases of somebody who froze the outbox and died are nobody's.
SELECT p.partition_key, nullif(p.lease_owner, s.gone), p.lease_until, p.lease_until - s.at AS time_left,
       p.lease_epoch, p.delivered, p.paused_at, p.crashes, s.at, s.frozen
  FROM {schema}.outbox_partitions AS p,
       (SELECT z.at, z.frozen, CASE WHEN NOT z.frozen THEN z.frozen_by END AS gone
          FROM (SELECT clock_timestamp() AS at, {frozen} AS frozen, s.frozen_by FROM {schema}.outbox_settings AS s) AS z) AS s
 ORDER BY p.partition_key
