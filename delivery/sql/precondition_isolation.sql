-- The watermark compares what several statements see; above READ COMMITTED all
-- statements of a transaction see the same.
SELECT format('sessions of this worker run with default_transaction_isolation = %L (set by: %s)', setting, source),
       CASE WHEN source IN ('client', 'session')
            THEN 'remove default_transaction_isolation from the options of the connection (--database-url, PGOPTIONS)'
            ELSE format('ALTER ROLE %I IN DATABASE %I SET default_transaction_isolation = ''read committed''',
                        session_user, current_database()) END
  FROM pg_settings
 WHERE name = 'default_transaction_isolation' AND setting <> 'read committed'
