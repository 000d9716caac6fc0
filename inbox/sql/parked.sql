-- query: Park
-- One that has nothing parked before it, but still must wait for its turn, is due at once.
INSERT INTO {schema}.inbox_parked
       (consumer, stream_key, version, event_id, state, attempts, due_at, reason, subject, stream_sequence, envelope, payload)
SELECT @consumer, @key::bigint, @version::bigint, @event, @state::text, @attempts,
       CASE WHEN @state::text = 'waiting'
            THEN CASE WHEN NOT EXISTS (SELECT FROM {schema}.inbox_parked AS p
                                        WHERE p.stream_key = @key::bigint AND p.version <= @version::bigint)
                      THEN pg_catalog.clock_timestamp() END
            ELSE pg_catalog.clock_timestamp() + @wait::interval END,
       @reason, @subject, @sequence, @envelope, @payload
    ON CONFLICT DO NOTHING

-- query: FindParked
SELECT w.stream, w.version, p.event_id
  FROM unnest(@streams::text[], @versions::bigint[], @events::uuid[]) AS w (stream, version, event_id)
 CROSS JOIN LATERAL (
       SELECT s.stream_key FROM {schema}.inbox_streams AS s WHERE s.consumer = @consumer AND s.stream = w.stream AND s.blocked LIMIT 1) AS s
 CROSS JOIN LATERAL (
       SELECT p.event_id FROM {schema}.inbox_parked AS p
        WHERE p.stream_key = s.stream_key AND p.version = w.version AND p.event_id = w.event_id LIMIT 1) AS p

-- query: Claim
-- The first parked message of a stream, when it is due. It is marked as begun before the handler runs, and due again later,
-- should nobody come back from that; one that comes back says so. SKIP LOCKED: somebody else is at it. One that may have
-- ended a process is a suspect: only who lets no other suspect run beside it may mark it.
UPDATE {schema}.inbox_parked AS p
   SET begun = CASE WHEN p.begun_by = @process::uuid THEN p.begun ELSE p.begun + 1 END, begun_by = @process::uuid,
       due_at = pg_catalog.clock_timestamp()
                + pg_catalog.make_interval(secs => least(@longest::float8, @base::float8 * pg_catalog.power(@factor::float8, least(p.begun, 50))))
  FROM (SELECT d.parked_id
          FROM {schema}.inbox_parked AS d
          JOIN {schema}.inbox_streams AS s USING (stream_key)
         WHERE d.consumer = @consumer AND d.due_at <= pg_catalog.clock_timestamp()
           AND (@suspects::boolean OR d.begun = 0 OR (d.begun = 1 AND d.begun_by = @process::uuid))
           AND NOT EXISTS (SELECT FROM {schema}.inbox_parked AS e
                            WHERE e.stream_key = d.stream_key AND (e.version, e.parked_id) < (d.version, d.parked_id))
         ORDER BY d.due_at
         LIMIT 1
           FOR NO KEY UPDATE OF s SKIP LOCKED) AS head
 WHERE p.parked_id = head.parked_id AND p.due_at <= pg_catalog.clock_timestamp()
RETURNING p.stream_key, p.parked_id, p.begun

-- query: Unclaim
-- The handler did not end its process: that it was begun does not count.
UPDATE {schema}.inbox_parked SET begun = begun - 1, begun_by = NULL, due_at = pg_catalog.clock_timestamp()
 WHERE parked_id = @id AND begun = @begun AND begun_by = @process

-- query: Head
-- Read after the stream's lock is held: what it says stays true.
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

-- query: Remove
DELETE FROM {schema}.inbox_parked WHERE parked_id = @id

-- query: Promote
-- The next message of the stream is due now; without one the stream waits no more.
WITH next AS (
    SELECT parked_id, state FROM {schema}.inbox_parked
     WHERE stream_key = @key AND parked_id <> @id
     ORDER BY version, parked_id
     LIMIT 1
), due AS (
    UPDATE {schema}.inbox_parked AS p SET due_at = pg_catalog.clock_timestamp()
      FROM next
     WHERE p.parked_id = next.parked_id AND next.state = 'waiting'
)
UPDATE {schema}.inbox_streams SET blocked = EXISTS (SELECT FROM next), updated_at = pg_catalog.clock_timestamp()
 WHERE stream_key = @key

-- query: List
SELECT p.parked_id, p.state, p.attempts, p.due_at, p.parked_at, coalesce(p.reason, ''), p.subject, p.stream_sequence, p.envelope, p.payload
  FROM {schema}.inbox_parked AS p
  JOIN {schema}.inbox_streams AS s USING (stream_key)
 WHERE p.consumer = @consumer AND p.state = @state AND p.parked_id > @after AND (@stream::text = '' OR s.stream = @stream::text)
 ORDER BY p.parked_id
 LIMIT @limit

-- query: Count
SELECT state, pg_catalog.count(*), coalesce(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(parked_at)), 0)::float8
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
