SELECT p.partition_key, p.lease_owner, p.lease_until, p.lease_until - s.at AS time_left,
       p.lease_epoch, p.delivered, p.paused_at, p.crashes, s.at, coalesce(s.frozen_at > s.at - interval '1 minute', false)
  FROM {schema}.outbox_partitions AS p, (SELECT clock_timestamp() AS at, o.frozen_at FROM {schema}.outbox_settings AS o) AS s
 ORDER BY p.partition_key
