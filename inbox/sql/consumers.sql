-- query: AddConsumer
INSERT INTO {schema}.inbox_consumers (consumer, lanes, stream, stream_created) VALUES (@consumer, @lanes, @stream, @created) ON CONFLICT DO NOTHING

-- query: LockConsumer
SELECT lanes, stream, stream_created FROM {schema}.inbox_consumers WHERE consumer = @consumer FOR NO KEY UPDATE

-- query: RestartConsumer
UPDATE {schema}.inbox_consumers SET stream_created = @created WHERE consumer = @consumer

-- query: Beat
INSERT INTO {schema}.inbox_readers (consumer, reader, hostname, pid, alive_until)
VALUES (@consumer, @reader, @hostname, @pid, pg_catalog.clock_timestamp() + @ttl::interval)
    ON CONFLICT (consumer, reader) DO UPDATE SET alive_until = EXCLUDED.alive_until

-- query: Leave
DELETE FROM {schema}.inbox_readers
 WHERE consumer = @consumer AND (reader = @reader OR alive_until < pg_catalog.clock_timestamp() - interval '1 hour')

-- query: Readers
SELECT reader FROM {schema}.inbox_readers WHERE consumer = @consumer AND alive_until > pg_catalog.clock_timestamp() ORDER BY reader

-- query: AddMalformed
INSERT INTO {schema}.inbox_malformed (consumer, stream_sequence, subject, reason, envelope, payload)
VALUES (@consumer, @sequence, @subject, @reason, @envelope, @payload)
    ON CONFLICT DO NOTHING
