-- Where the worker c.previous ran. Once its row is gone, what was told of it last.
coalesce((SELECT w.hostname FROM {schema}.outbox_workers AS w WHERE w.worker_id = c.previous),
         (SELECT CASE WHEN o.worker_id = c.previous THEN o.hostname ELSE o.previous_hostname END
            FROM {schema}.outbox_ownership AS o
           WHERE c.previous IS NOT NULL AND (o.worker_id = c.previous OR o.previous_id = c.previous)
           ORDER BY o.id DESC
           LIMIT 1))
