-- Whether nobody can write here. Who reads a standby, or has a role of its own that may
-- not write, does not know that.
SELECT current_setting('transaction_read_only')::boolean
       AND NOT pg_is_in_recovery()
       AND EXISTS (SELECT FROM pg_catalog.pg_settings AS s
                    WHERE s.name = 'default_transaction_read_only' AND s.setting = 'on'
                      AND s.source NOT IN ('user', 'database user', 'client', 'session'))
