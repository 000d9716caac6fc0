-- query: Queue
INSERT INTO {schema}.inbox_calls (sender, request) VALUES (@sender, @request)

-- query: Waits
SELECT EXISTS (SELECT FROM {schema}.inbox_calls WHERE sender = @sender), pg_catalog.row_security_active('{schema}.inbox_calls')

-- query: AddCaller
INSERT INTO {schema}.inbox_callers (sender)
SELECT @sender::text
 WHERE NOT EXISTS (SELECT FROM {schema}.inbox_callers WHERE sender = @sender)
    ON CONFLICT DO NOTHING

-- query: LockCaller
-- An id that was sent must outlive a crash, whatever the session says of commits.
SELECT generation, call_id, queued,
       -- include: copy
       CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN pg_catalog.set_config('synchronous_commit', 'on', true) END,
       pg_catalog.set_config('idle_in_transaction_session_timeout', @idle, true)
  FROM {schema}.inbox_callers
 WHERE sender = @sender
   FOR NO KEY UPDATE

-- query: Head
-- The call that was sent last, while it has no answer; else the oldest.
SELECT c.queued, c.request
  FROM {schema}.inbox_calls AS c
 WHERE c.sender = @sender
   AND c.queued = coalesce((SELECT l.queued FROM {schema}.inbox_calls AS l WHERE l.sender = @sender AND l.queued = @last),
                           (SELECT o.queued FROM {schema}.inbox_calls AS o WHERE o.sender = @sender ORDER BY o.queued LIMIT 1))

-- query: Number
UPDATE {schema}.inbox_callers SET generation = @generation, call_id = @call, queued = @queued WHERE sender = @sender

-- query: Failed
UPDATE {schema}.inbox_calls SET attempts = attempts + 1, last_error = @reason WHERE sender = @sender AND queued = @queued

-- query: Remove
-- Clears its number: a sequence that was set back may give it to another call.
WITH removed AS (
    DELETE FROM {schema}.inbox_calls WHERE sender = @sender AND queued = @queued RETURNING queued),
forgotten AS (
    UPDATE {schema}.inbox_callers AS c SET queued = 0 FROM removed AS r WHERE c.sender = @sender AND c.queued = r.queued)
SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', @idle, true) FROM removed

-- query: Last
SELECT coalesce(max(generation), 0), coalesce(max(call_id), 0),
       -- include: copy
       EXISTS (SELECT FROM {schema}.inbox_calls AS c JOIN {schema}.inbox_callers AS l ON l.sender = c.sender AND l.queued = c.queued WHERE c.sender = @sender),
       pg_catalog.row_security_active('{schema}.inbox_callers')
  FROM {schema}.inbox_callers WHERE sender = @sender

-- fragment: copy
-- Names the copy of the table: a failover starts another server, a restore writes another file.
       pg_catalog.concat_ws('/', extract(epoch FROM pg_catalog.pg_postmaster_start_time()), pg_catalog.pg_relation_filenode('{schema}.inbox_callers'::regclass)),
