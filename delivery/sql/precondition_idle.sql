-- What was set for this role or session alone says nothing about the producers.
SELECT 'idle_in_transaction_session_timeout is 0: a producer that goes idle inside its transaction holds back the order for ever',
       format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = ''1min''', current_database())
  FROM pg_settings
 WHERE name = 'idle_in_transaction_session_timeout' AND setting = '0'
   AND source NOT IN ('user', 'database user', 'client', 'session')
