-- query: Define
-- One row per stream: its watermark, its place in the schedule and its owner. planned_at is the time at which due_at was set.
CREATE TABLE IF NOT EXISTS {schema}.projection_streams (
    applied_version  bigint NOT NULL DEFAULT 0 CHECK (applied_version >= 0),
    expected_version bigint NOT NULL DEFAULT 1 CHECK (expected_version >= 1),
    wanted_version   bigint NOT NULL DEFAULT 0,
    lease_epoch      bigint NOT NULL DEFAULT 0,
    due_at           timestamptz,
    planned_at       timestamptz,
    lease_until      timestamptz,
    dead_at          timestamptz,
    applied_at       timestamptz,
    lease_owner      uuid,
    applied_event    uuid,
    attempts         int NOT NULL DEFAULT 0,
    stream_id        text COLLATE "C" PRIMARY KEY,
    fingerprint      text NOT NULL DEFAULT '',
    last_error       text
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS projection_streams_due_idx ON {schema}.projection_streams (due_at, stream_id) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS projection_streams_dead_idx ON {schema}.projection_streams (dead_at, stream_id) WHERE dead_at IS NOT NULL;

-- query: Ensure
INSERT INTO {schema}.projection_streams (stream_id) VALUES (@stream) ON CONFLICT DO NOTHING

-- query: Announce
-- Notes the versions that streams are known to have. Rows that are being applied are locked: they are left out of the
-- answer, and the caller tells them again. A lease, a backoff and a death stay as they are.
WITH bell AS MATERIALIZED (
    SELECT b.stream_id COLLATE "C" AS stream_id, b.version FROM unnest(@streams::text[], @versions::bigint[]) AS b (stream_id, version)),
known AS MATERIALIZED (
    SELECT s.stream_id, b.version FROM {schema}.projection_streams AS s JOIN bell AS b ON b.stream_id = s.stream_id
       FOR UPDATE OF s SKIP LOCKED),
changed AS (
    UPDATE {schema}.projection_streams AS s
       SET wanted_version = greatest(s.wanted_version, k.version),
           due_at = CASE WHEN s.dead_at IS NOT NULL OR s.applied_version >= k.version THEN s.due_at
                         ELSE coalesce(s.due_at, pg_catalog.clock_timestamp()) END,
           planned_at = CASE WHEN s.due_at IS NULL THEN pg_catalog.clock_timestamp() ELSE s.planned_at END
      FROM known AS k
     WHERE s.stream_id = k.stream_id
       AND (s.wanted_version < k.version OR s.applied_version < k.version AND s.due_at IS NULL AND s.dead_at IS NULL)),
added AS (
    INSERT INTO {schema}.projection_streams (stream_id, wanted_version, due_at, planned_at)
    SELECT b.stream_id, b.version, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() FROM bell AS b
     WHERE NOT EXISTS (SELECT FROM {schema}.projection_streams AS s WHERE s.stream_id = b.stream_id)
     ORDER BY b.stream_id -- two processes that get to know the same streams wait for each other's rows: in one order, or forever
    ON CONFLICT DO NOTHING
    RETURNING stream_id)
SELECT stream_id FROM known UNION ALL SELECT stream_id FROM added

-- query: Claim
-- Takes streams that are due, the longest due first. due_at moves to the lease's end, so that a stream whose owner died
-- comes up again by itself. Rows that are being applied are locked, and skipped whatever their lease says.
WITH due AS MATERIALIZED (
    SELECT stream_id FROM {schema}.projection_streams
     WHERE due_at <= pg_catalog.statement_timestamp() AND dead_at IS NULL
     ORDER BY due_at, stream_id LIMIT @limit FOR UPDATE SKIP LOCKED)
UPDATE {schema}.projection_streams AS s
   SET lease_owner = @worker, lease_epoch = s.lease_epoch + 1,
       lease_until = pg_catalog.clock_timestamp() + @ttl::interval, due_at = pg_catalog.clock_timestamp() + @ttl::interval,
       planned_at = pg_catalog.clock_timestamp()
  FROM due
 WHERE s.stream_id = due.stream_id
RETURNING s.stream_id, s.lease_epoch, s.attempts

-- query: Ahead
-- Streams that were planned later than now, as the clock has stepped back since; with those that are owned, how long a lease lasts.
SELECT stream_id, lease_epoch, lease_until, due_at - planned_at
  FROM {schema}.projection_streams
 WHERE due_at > pg_catalog.statement_timestamp()
   AND planned_at > pg_catalog.clock_timestamp() + CASE WHEN lease_until IS NULL THEN '0' ELSE @steady::interval END
 ORDER BY due_at, stream_id LIMIT @limit

-- query: Advance
-- Makes such streams due where they are as they were seen. A lease stays until the next owner's.
WITH seen AS MATERIALIZED (
    SELECT s.stream_id FROM {schema}.projection_streams AS s
      JOIN unnest(@streams::text[], @epochs::bigint[]) AS z (stream_id, epoch) ON z.stream_id COLLATE "C" = s.stream_id AND z.epoch = s.lease_epoch
     WHERE s.due_at > pg_catalog.clock_timestamp() AND s.planned_at > pg_catalog.clock_timestamp()
     ORDER BY s.stream_id FOR UPDATE OF s SKIP LOCKED)
UPDATE {schema}.projection_streams AS s
   SET due_at = pg_catalog.clock_timestamp(), planned_at = pg_catalog.clock_timestamp()
  FROM seen
 WHERE s.stream_id = seen.stream_id

-- query: Lock
-- The owner locks its stream. No row: the stream has another owner.
-- include: watermark
 WHERE stream_id = @stream AND lease_owner = @worker AND lease_epoch = @epoch
   FOR UPDATE

-- query: Seize
-- For a replay in one transaction: the row's lock, whoever has the lease.
-- include: watermark
 WHERE stream_id = @stream
   FOR UPDATE

-- fragment: watermark
SELECT applied_version, expected_version, wanted_version, applied_event
  FROM {schema}.projection_streams

-- query: Done
-- Moves the watermark, which the same transaction's effects belong to. Never back, never under another owner.
-- pause: the wait if more is known to come, NULL for none; more: there is more in any case;
-- before: the watermark that the transaction began with.
UPDATE {schema}.projection_streams
   SET applied_version = @applied::bigint, expected_version = @applied::bigint + 1, applied_event = coalesce(@event, applied_event),
       fingerprint = @print, wanted_version = greatest(wanted_version, @applied::bigint),
       applied_at = CASE WHEN applied_version = @applied::bigint THEN applied_at ELSE pg_catalog.clock_timestamp() END,
       attempts = 0, last_error = NULL, lease_owner = NULL, lease_until = NULL,
       due_at = CASE WHEN @more OR wanted_version > @applied::bigint THEN pg_catalog.clock_timestamp() + coalesce(@pause::interval, '0') END,
       planned_at = pg_catalog.clock_timestamp()
 WHERE stream_id = @stream AND lease_owner = @worker AND lease_epoch = @epoch
   AND applied_version = @before AND @applied::bigint >= applied_version

-- query: Fail
-- Counts a failure (attempts: the number with it), or only notes it, and plans the next attempt; none when it is dead.
UPDATE {schema}.projection_streams
   SET attempts = @attempts, last_error = @error, lease_owner = NULL, lease_until = NULL,
       dead_at = CASE WHEN @dead::boolean THEN pg_catalog.clock_timestamp() END,
       due_at = CASE WHEN NOT @dead::boolean THEN pg_catalog.clock_timestamp() + @wait::interval END,
       planned_at = pg_catalog.clock_timestamp()
 WHERE stream_id = @stream AND lease_owner = @worker AND lease_epoch = @epoch

-- query: Release
-- Gives a stream back, to be taken again after the wait; nothing is counted.
UPDATE {schema}.projection_streams
   SET lease_owner = NULL, lease_until = NULL, due_at = pg_catalog.clock_timestamp() + @wait::interval, planned_at = pg_catalog.clock_timestamp()
 WHERE stream_id = @stream AND lease_owner = @worker AND lease_epoch = @epoch

-- query: Put
-- The end of a replay, under the row's lock. The epoch rises: an owner's batch in flight is refused. A head that is
-- where it was keeps its attempts, its error and its death.
UPDATE {schema}.projection_streams
   SET applied_version = @applied::bigint, expected_version = @applied::bigint + 1, applied_event = @event, fingerprint = @print,
       wanted_version = greatest(@wanted::bigint, @applied::bigint),
       applied_at = CASE WHEN applied_version = @applied::bigint THEN applied_at ELSE pg_catalog.clock_timestamp() END,
       attempts = CASE WHEN applied_version = @applied::bigint THEN attempts ELSE 0 END,
       last_error = CASE WHEN applied_version = @applied::bigint THEN last_error END,
       dead_at = CASE WHEN applied_version = @applied::bigint THEN dead_at END,
       lease_epoch = lease_epoch + 1, lease_owner = NULL, lease_until = NULL,
       due_at = CASE WHEN @wanted::bigint <= @applied::bigint OR applied_version = @applied::bigint AND dead_at IS NOT NULL THEN NULL
                     WHEN applied_version = @applied::bigint AND lease_owner IS NULL THEN coalesce(due_at, pg_catalog.clock_timestamp())
                     ELSE pg_catalog.clock_timestamp() END,
       planned_at = CASE WHEN applied_version = @applied::bigint AND lease_owner IS NULL THEN coalesce(planned_at, pg_catalog.clock_timestamp())
                         ELSE pg_catalog.clock_timestamp() END
 WHERE stream_id = @stream

-- query: Requeue
-- Dead streams (one, or all where it is NULL) are due again with no attempts, the longest dead first.
WITH dead AS MATERIALIZED (
    SELECT stream_id, dead_at FROM {schema}.projection_streams
     WHERE dead_at IS NOT NULL AND (@stream::text IS NULL OR stream_id = @stream::text)
     ORDER BY dead_at, stream_id LIMIT @limit FOR UPDATE),
changed AS (
    UPDATE {schema}.projection_streams AS s
       SET dead_at = NULL, attempts = 0, last_error = NULL, due_at = pg_catalog.clock_timestamp(), planned_at = pg_catalog.clock_timestamp()
      FROM dead AS d WHERE s.stream_id = d.stream_id
    RETURNING s.stream_id)
SELECT d.stream_id FROM dead AS d JOIN changed AS c ON c.stream_id = d.stream_id ORDER BY d.dead_at, d.stream_id

-- query: Summary
SELECT pg_catalog.count(*) FILTER (WHERE dead_at IS NULL AND due_at IS NULL),
       pg_catalog.count(*) FILTER (WHERE dead_at IS NULL AND due_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= pg_catalog.statement_timestamp())
                          AND attempts = 0 AND last_error IS NULL),
       pg_catalog.count(*) FILTER (WHERE dead_at IS NULL AND lease_until > pg_catalog.statement_timestamp()),
       pg_catalog.count(*) FILTER (WHERE dead_at IS NULL AND due_at IS NOT NULL AND (lease_until IS NULL OR lease_until <= pg_catalog.statement_timestamp())
                          AND (attempts > 0 OR last_error IS NOT NULL)),
       pg_catalog.count(*) FILTER (WHERE dead_at IS NOT NULL),
       least(coalesce(pg_catalog.sum(wanted_version - applied_version) FILTER (WHERE wanted_version > applied_version), 0), 9223372036854775807)::bigint,
       least(coalesce(pg_catalog.sum(wanted_version - applied_version) FILTER (WHERE dead_at IS NOT NULL AND wanted_version > applied_version), 0), 9223372036854775807)::bigint,
       pg_catalog.min(dead_at),
       greatest(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(dead_at)), 0)::float8,
       coalesce(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.min(due_at) FILTER (WHERE due_at <= pg_catalog.statement_timestamp())), 0)::float8
  FROM {schema}.projection_streams

-- query: List
-- Streams of one state, or of all where it is NULL; the dead first, then those that are due first.
SELECT stream_id, state, applied_version, expected_version, wanted_version, attempts, due_at, dead_at, applied_at,
       lease_owner, lease_until, coalesce(last_error, '')
  FROM (SELECT *, CASE WHEN dead_at IS NOT NULL THEN 'dead'
                       WHEN lease_until > pg_catalog.statement_timestamp() THEN 'processing'
                       WHEN due_at IS NULL THEN 'current'
                       WHEN attempts > 0 OR last_error IS NOT NULL THEN 'failed'
                       ELSE 'pending' END AS state
          FROM {schema}.projection_streams) AS s
 WHERE @state::text IS NULL OR state = @state::text
 ORDER BY dead_at NULLS LAST, due_at NULLS LAST, stream_id
 LIMIT @limit

-- query: Eligible
-- The stream that is to be tried next among those that failed.
SELECT stream_id, 'failed', applied_version, expected_version, wanted_version, attempts, due_at, dead_at, applied_at,
       lease_owner, lease_until, coalesce(last_error, '')
  FROM {schema}.projection_streams
 WHERE dead_at IS NULL AND due_at IS NOT NULL AND (attempts > 0 OR last_error IS NOT NULL)
   AND (lease_until IS NULL OR lease_until <= pg_catalog.statement_timestamp())
 ORDER BY due_at, stream_id LIMIT 1

-- query: Enter
-- Every transaction writes the same text for the same values under all settings of the role, and ends by itself when its
-- process is frozen: a lock must not outlive its owner's lease by much.
SELECT pg_catalog.set_config('search_path', @path, true), pg_catalog.set_config('TimeZone', 'UTC', true),
       pg_catalog.set_config('DateStyle', 'ISO, YMD', true), pg_catalog.set_config('IntervalStyle', 'postgres', true),
       pg_catalog.set_config('extra_float_digits', '1', true), pg_catalog.set_config('bytea_output', 'hex', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', @idle, true)

-- query: Hasten
-- For writes that a crash may take back: they need not wait for the disk.
SELECT pg_catalog.set_config('synchronous_commit', 'off', true)

-- query: Settings
SELECT pg_catalog.current_setting(n) FROM pg_catalog.unnest(@names::text[]) WITH ORDINALITY AS s (n, i) ORDER BY i

-- query: SettingsBack
SELECT pg_catalog.set_config(n, v, true) FROM unnest(@names::text[], @values::text[]) AS s (n, v)
