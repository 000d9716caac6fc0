-- The newest first. Rows name few partitions each, so that to look for one partition
-- among all that are kept takes some milliseconds.
SELECT o.id, o.changed_at, o.kind, o.previous_id, coalesce(o.previous_hostname, ''), o.worker_id, coalesce(o.hostname, ''),
       o.lease_until, o.partition_keys, o.lease_epochs
  FROM {schema}.outbox_ownership AS o
 WHERE ($1::bigint = 0 OR o.id < $1)
   AND ($2::smallint IS NULL OR $2 = ANY (o.partition_keys))
   AND ($3::timestamptz IS NULL OR o.changed_at >= $3)
   AND ($4::timestamptz IS NULL OR o.changed_at <= $4)
 ORDER BY o.id DESC
 LIMIT $5
