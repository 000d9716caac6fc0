-- query: RetainDeliveries
DELETE FROM {schema}.outbox_deliveries
 WHERE id IN (SELECT id FROM {schema}.outbox_deliveries
               WHERE published_at < clock_timestamp() - @keep::interval
               ORDER BY published_at
               LIMIT @most
                 FOR UPDATE SKIP LOCKED)

-- query: RetainDedupe
DELETE FROM {schema}.outbox_dedupe_keys
 WHERE (topic, dedupe_key) IN (SELECT topic, dedupe_key FROM {schema}.outbox_dedupe_keys
               WHERE created_at < clock_timestamp() - @keep::interval
               LIMIT @most
                 FOR UPDATE SKIP LOCKED)

-- query: RetainThroughput
DELETE FROM {schema}.outbox_throughput
 WHERE (minute, partition_key) IN (SELECT minute, partition_key FROM {schema}.outbox_throughput
               WHERE minute < clock_timestamp() - @keep::interval
               ORDER BY minute
               LIMIT @most
                 FOR UPDATE SKIP LOCKED)

-- query: RetainOwnership
-- All but the newest @keep. Nobody may change what was told, so no row is locked before.
DELETE FROM {schema}.outbox_ownership
 WHERE id IN (SELECT id FROM {schema}.outbox_ownership
               WHERE id <= (SELECT id FROM {schema}.outbox_ownership
                             ORDER BY id DESC OFFSET @keep LIMIT 1)
               ORDER BY id
               LIMIT @most)
