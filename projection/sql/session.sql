-- query: Enter
-- Every transaction writes the same text for the same values, whatever the role's settings are, and ends by itself when its
-- process is frozen: a lock must not outlive its owner's lease by much.
SELECT pg_catalog.set_config('search_path', @path, true), pg_catalog.set_config('TimeZone', 'UTC', true),
       pg_catalog.set_config('DateStyle', 'ISO, YMD', true), pg_catalog.set_config('IntervalStyle', 'postgres', true),
       pg_catalog.set_config('extra_float_digits', '1', true), pg_catalog.set_config('bytea_output', 'hex', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', @idle, true)

-- query: Hasten
-- For what a crash may take back: it need not wait for the disk.
SELECT pg_catalog.set_config('synchronous_commit', 'off', true)

-- query: Settings
SELECT pg_catalog.current_setting(n) FROM pg_catalog.unnest(@names::text[]) WITH ORDINALITY AS s (n, i) ORDER BY i

-- query: SettingsBack
SELECT pg_catalog.set_config(n, v, true) FROM unnest(@names::text[], @values::text[]) AS s (n, v)
