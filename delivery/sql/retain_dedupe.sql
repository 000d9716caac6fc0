DELETE FROM {schema}.outbox_dedupe_keys
 WHERE (topic, dedupe_key) IN (SELECT topic, dedupe_key FROM {schema}.outbox_dedupe_keys
               WHERE created_at < clock_timestamp() - $1::interval
               LIMIT $2
                 FOR UPDATE SKIP LOCKED)
