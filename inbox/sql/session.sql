-- query: Settings
-- The tables may have the statistics of empty ones: what follows is found by key, whatever they say. The session of a
-- reader that is suspended inside its transaction ends after the idle time, and with it the locks.
SELECT pg_catalog.set_config('inbox.enable_seqscan', pg_catalog.current_setting('enable_seqscan'), true),
       pg_catalog.set_config('enable_seqscan', 'off', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', @idle, true)

-- query: SettingsBack
-- The handler's statements are planned as its session says.
SELECT pg_catalog.set_config('enable_seqscan', pg_catalog.current_setting('inbox.enable_seqscan'), true)

-- query: LimitIdle
SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', @idle, true)
