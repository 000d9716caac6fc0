-- The handler's statements are planned as its session says.
SELECT set_config('enable_seqscan', current_setting('inbox.enable_seqscan'), true)
