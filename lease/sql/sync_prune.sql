-- Only rows that nobody leases and nothing lies behind.
DELETE FROM {schema}.outbox_partitions AS p
 WHERE p.partition_key >= $1::int
   AND (p.lease_owner IS NULL OR p.lease_until < clock_timestamp())
   AND NOT EXISTS (SELECT FROM {schema}.outbox AS o WHERE o.partition_key = p.partition_key)
