SELECT (SELECT o.changed_at FROM {schema}.outbox_ownership AS o ORDER BY o.id LIMIT 1)
