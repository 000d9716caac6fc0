-- The tables may have the statistics of empty ones: what follows is found by key, whatever they say. The session of a
-- reader that is suspended inside its transaction ends after $1 ms, and with it the locks.
SELECT set_config('inbox.enable_seqscan', current_setting('enable_seqscan'), true),
       set_config('enable_seqscan', 'off', true),
       set_config('idle_in_transaction_session_timeout', $1, true)
