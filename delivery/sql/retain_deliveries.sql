DELETE FROM {schema}.outbox_deliveries
 WHERE id IN (SELECT id FROM {schema}.outbox_deliveries
               WHERE published_at < clock_timestamp() - $1::interval
               ORDER BY published_at
               LIMIT $2
                 FOR UPDATE SKIP LOCKED)
