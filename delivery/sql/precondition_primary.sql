-- On a standby rows become visible in the order of replay, and the locks of
-- producers cannot be seen.
SELECT 'the server is a standby, which does not show the transactions that are writing events',
       'connect to the primary (target_session_attrs=read-write in --database-url)'
 WHERE pg_is_in_recovery()
