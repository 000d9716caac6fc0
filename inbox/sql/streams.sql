-- query: Decide
SELECT place, key, verdict, findings, missing, last, result
  FROM {schema}.inbox_decide(@consumer::text, @by_ids::boolean, @its_turn::boolean, @streams::text[], @versions::bigint[], @events::uuid[],
       @sequences::bigint[], @partitions::integer[], @generations::integer[], @epochs::bigint[])

-- query: Record
SELECT {schema}.inbox_record(@keys::bigint[], @versions::bigint[], @events::uuid[], @sequences::bigint[], @partitions::integer[], @generations::integer[],
       @epochs::bigint[], @results::bytea[], @given_up::text)

-- query: LockStream
SELECT stream_key FROM {schema}.inbox_streams WHERE stream_key = @key FOR NO KEY UPDATE

-- query: ForgetStream
UPDATE {schema}.inbox_streams
   SET version = 0, event_id = NULL, generation = 0, partition = -1, sequence = 0, epoch = 0, updated_at = pg_catalog.clock_timestamp()
 WHERE consumer = @consumer AND stream = @stream
RETURNING stream_key

-- query: ForgetRecords
DELETE FROM {schema}.inbox_records WHERE stream_key = @key

-- query: Purge
DELETE FROM {schema}.inbox_records
 WHERE ctid = ANY (ARRAY(
       SELECT r.ctid
         FROM {schema}.inbox_records AS r
        WHERE r.recorded_at < pg_catalog.clock_timestamp() - @retention::interval
          AND EXISTS (SELECT FROM {schema}.inbox_streams AS s WHERE s.stream_key = r.stream_key AND s.consumer = @consumer)
        LIMIT @limit))

-- query: AddSender
INSERT INTO {schema}.inbox_senders (consumer, sender)
SELECT @consumer::text, @sender::text
 WHERE NOT EXISTS (SELECT FROM {schema}.inbox_senders WHERE consumer = @consumer AND sender = @sender)
    ON CONFLICT DO NOTHING

-- query: LockSender
SELECT generation, call_id, failed, coalesce(reason, ''), result
  FROM {schema}.inbox_senders
 WHERE consumer = @consumer AND sender = @sender
   FOR NO KEY UPDATE

-- query: SetSender
UPDATE {schema}.inbox_senders
   SET generation = @generation, call_id = @call, failed = @failed, reason = @reason, result = @result, updated_at = pg_catalog.clock_timestamp()
 WHERE consumer = @consumer AND sender = @sender

-- query: LastCall
SELECT generation, call_id FROM {schema}.inbox_senders WHERE consumer = @consumer AND sender = @sender

-- query: Settings
-- The tables may have the statistics of empty ones: the next statements find rows by key, whatever those say. A session
-- that is suspended inside its transaction ends after the idle time, and with it the locks.
SELECT pg_catalog.set_config('inbox.enable_seqscan', pg_catalog.current_setting('enable_seqscan'), true),
       pg_catalog.set_config('enable_seqscan', 'off', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', @idle, true)

-- query: SettingsBack
-- The handler's statements are planned as its session says.
SELECT pg_catalog.set_config('enable_seqscan', pg_catalog.current_setting('inbox.enable_seqscan'), true)

-- query: LimitIdle
SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', @idle, true)
