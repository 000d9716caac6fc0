-- query: AddStreams
INSERT INTO {schema}.inbox_streams (consumer, stream)
SELECT @consumer::text, w.stream
  FROM pg_catalog.unnest(@streams::text[]) AS w (stream)
 WHERE NOT EXISTS (SELECT FROM {schema}.inbox_streams AS s WHERE s.consumer = @consumer AND s.stream = w.stream)
 ORDER BY w.stream
    ON CONFLICT DO NOTHING

-- query: LockStreams
-- include: stream
 WHERE consumer = @consumer AND stream = ANY (@streams::text[])
 ORDER BY stream
   FOR NO KEY UPDATE

-- query: LockStream
-- include: stream
 WHERE stream_key = @key
   FOR NO KEY UPDATE

-- fragment: stream
SELECT stream, stream_key, version, event_id, generation, partition, sequence, epoch, blocked
  FROM {schema}.inbox_streams

-- query: SetStreams
UPDATE {schema}.inbox_streams AS s
   SET version = w.version, event_id = w.event_id, generation = w.generation, partition = w.partition,
       sequence = w.sequence, epoch = w.epoch, blocked = w.blocked, updated_at = pg_catalog.clock_timestamp()
  FROM unnest(@keys::bigint[], @versions::bigint[], @events::uuid[], @generations::integer[], @partitions::integer[],
              @sequences::bigint[], @epochs::bigint[], @blocked::boolean[])
       AS w (stream_key, version, event_id, generation, partition, sequence, epoch, blocked)
 WHERE s.stream_key = w.stream_key

-- query: FindRecords
-- A statement of its own after the locks: it sees what whoever held them before has committed.
SELECT w.stream, w.version, r.event_id, r.result
  FROM unnest(@streams::text[], @versions::bigint[]) AS w (stream, version)
 CROSS JOIN LATERAL (
       SELECT s.stream_key FROM {schema}.inbox_streams AS s WHERE s.consumer = @consumer AND s.stream = w.stream LIMIT 1) AS s
 CROSS JOIN LATERAL (
       SELECT r.event_id, r.result FROM {schema}.inbox_records AS r
        WHERE r.stream_key = s.stream_key AND r.version = w.version LIMIT 1) AS r

-- query: AddRecords
INSERT INTO {schema}.inbox_records (stream_key, version, event_id, generation, result)
SELECT * FROM unnest(@keys::bigint[], @versions::bigint[], @events::uuid[], @generations::integer[], @results::bytea[])

-- query: AddSkipped
INSERT INTO {schema}.inbox_records (stream_key, version, event_id, generation, skipped, note)
VALUES (@key, @version, @event, @generation, true, @note)
    ON CONFLICT DO NOTHING

-- query: ForgetStream
UPDATE {schema}.inbox_streams
   SET version = 0, event_id = NULL, generation = 0, partition = -1, sequence = 0, epoch = 0, updated_at = pg_catalog.clock_timestamp()
 WHERE stream_key = @key

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
