-- All but the newest $1. Nobody may change what was told, so no row is locked before.
DELETE FROM {schema}.outbox_ownership
 WHERE id IN (SELECT id FROM {schema}.outbox_ownership
               WHERE id <= (SELECT id FROM {schema}.outbox_ownership
                             ORDER BY id DESC OFFSET $1 LIMIT 1)
               ORDER BY id
               LIMIT $2)
