-- query: Park
SELECT {schema}.inbox_park(@consumer::text, @key::bigint, @version::bigint, @event::uuid, @state::text, @attempts::integer, @wait::interval, @reason::text,
       @subject::text, @sequence::bigint, @envelope::bytea, @payload::bytea)

-- query: Unpark
SELECT {schema}.inbox_unpark(@key::bigint, @id::bigint)

-- query: Claim
SELECT key, id, begun FROM {schema}.inbox_claim(@consumer::text, @process::uuid, @suspects::boolean, @base::double precision,
       @factor::double precision, @longest::double precision)

-- query: Unclaim
-- The handler did not end its process: its beginning does not count.
UPDATE {schema}.inbox_parked SET begun = begun - 1, begun_by = NULL, due_at = pg_catalog.clock_timestamp()
 WHERE parked_id = @id AND begun = @begun AND begun_by = @process

-- query: Head
-- Read under the stream's lock: the row stays true.
SELECT parked_id, state, attempts, begun, coalesce(reason, ''), subject,
       stream_sequence, envelope, payload
  FROM {schema}.inbox_parked
 WHERE stream_key = @key
 ORDER BY version, parked_id
 LIMIT 1

-- query: Fail
UPDATE {schema}.inbox_parked
   SET state = @state, attempts = @attempts, due_at = pg_catalog.clock_timestamp() + @wait::interval, reason = @reason, begun = 0, begun_by = NULL
 WHERE parked_id = @id

-- query: Bury
-- A message that cannot be read or recorded waits for a person.
UPDATE {schema}.inbox_parked
   SET state = 'dead', due_at = NULL, reason = @reason, begun = 0, begun_by = NULL
 WHERE parked_id = @id AND begun = @begun AND begun_by = @process

-- query: List
SELECT p.parked_id, p.state, p.attempts,
       CASE WHEN p.due_at IS NOT NULL THEN least(greatest(p.due_at, '0001-01-01 00:00:00.000001Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz) END,
       least(greatest(p.parked_at, '0001-01-01 00:00:00.000001Z'::timestamptz), '9999-12-31 23:59:59.999999Z'::timestamptz),
       coalesce(p.reason, ''), p.subject, p.stream_sequence, p.envelope, p.payload
  FROM {schema}.inbox_parked AS p
  JOIN {schema}.inbox_streams AS s USING (stream_key)
 WHERE p.consumer = @consumer AND p.state = @state AND p.parked_id > @after AND (@stream::text = '' OR s.stream = @stream::text)
 ORDER BY p.parked_id
 LIMIT @limit

-- query: Count
SELECT state, pg_catalog.count(*), greatest(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(parked_at)), 0)::float8
  FROM {schema}.inbox_parked
 WHERE consumer = @consumer
 GROUP BY state

-- query: Requeue
UPDATE {schema}.inbox_parked
   SET state = 'failed', attempts = 0, begun = 0, begun_by = NULL, due_at = pg_catalog.clock_timestamp()
 WHERE consumer = @consumer AND state = 'dead' AND (@events::uuid[] IS NULL OR event_id = ANY (@events::uuid[]))

-- query: FindDead
SELECT stream_key FROM {schema}.inbox_parked WHERE consumer = @consumer AND event_id = @event AND state = 'dead' LIMIT 1

-- query: TakeDead
DELETE FROM {schema}.inbox_parked
 WHERE stream_key = @key AND event_id = @event AND state = 'dead'
RETURNING parked_id, subject, stream_sequence, envelope, payload
