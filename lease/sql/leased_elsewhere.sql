-- Who stands in the way of a worker without leasing. Leases of somebody who froze the
-- outbox and died do not.
SELECT (SELECT count(*) FROM {schema}.outbox_workers    WHERE heartbeat_until > clock_timestamp()),
       (SELECT count(*)
          FROM {schema}.outbox_partitions AS p
         CROSS JOIN (SELECT s.frozen_by, {frozen} AS holds FROM {schema}.outbox_settings AS s) AS freezer
         WHERE p.lease_owner IS NOT NULL AND p.lease_until > clock_timestamp()
           AND (freezer.holds OR p.lease_owner IS DISTINCT FROM freezer.frozen_by))
