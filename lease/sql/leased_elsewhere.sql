-- Who stands in the way of a worker without leasing.
SELECT (SELECT count(*) FROM {schema}.outbox_workers    WHERE heartbeat_until > clock_timestamp()),
       (SELECT count(*) FROM {schema}.outbox_partitions WHERE lease_owner IS NOT NULL AND lease_until > clock_timestamp())
