-- query: History
-- The newest first. Rows name few partitions each, so that to look for one partition
-- among all that are kept takes some milliseconds.
SELECT o.id, o.changed_at, o.kind, o.previous_id, coalesce(o.previous_hostname, ''), o.worker_id, coalesce(o.hostname, ''),
       o.lease_until, o.partition_keys, o.lease_epochs
  FROM {schema}.outbox_ownership AS o
 WHERE (@before::bigint = 0 OR o.id < @before)
   AND (@partition::smallint IS NULL OR @partition = ANY (o.partition_keys))
   AND (@since::timestamptz IS NULL OR o.changed_at >= @since)
   AND (@until::timestamptz IS NULL OR o.changed_at <= @until)
 ORDER BY o.id DESC
 LIMIT @limit

-- query: HistoryBegins
SELECT (SELECT o.changed_at FROM {schema}.outbox_ownership AS o ORDER BY o.id LIMIT 1)

-- fragment: previous_hostname
-- Where the worker c.previous ran. Once its row is gone, what was told of it last.
coalesce((SELECT w.hostname FROM {schema}.outbox_workers AS w WHERE w.worker_id = c.previous),
         (SELECT CASE WHEN o.worker_id = c.previous THEN o.hostname ELSE o.previous_hostname END
            FROM {schema}.outbox_ownership AS o
           WHERE c.previous IS NOT NULL AND (o.worker_id = c.previous OR o.previous_id = c.previous)
           ORDER BY o.id DESC
           LIMIT 1))
