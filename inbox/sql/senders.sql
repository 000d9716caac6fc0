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
