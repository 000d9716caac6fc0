-- query: AddLanes
INSERT INTO {schema}.inbox_lanes (consumer, lane, position, position_time)
SELECT @consumer, lane, @position, @time FROM pg_catalog.generate_series(0, @lanes::integer - 1) AS lane
    ON CONFLICT DO NOTHING

-- query: Acquire
-- Takes free lanes, up to the limit; not those that this reader has already. A lane that its reader did not give back may
-- have a message that ends each process that begins it.
UPDATE {schema}.inbox_lanes AS l
   SET owner = @reader::uuid, epoch = l.epoch + 1, lease_until = pg_catalog.clock_timestamp() + @ttl::interval, lease_ttl = @ttl::interval,
       crashes = l.crashes + CASE WHEN l.owner <> @reader::uuid THEN 1 ELSE 0 END
  FROM (SELECT f.lane FROM {schema}.inbox_lanes AS f
         WHERE f.consumer = @consumer AND f.lane <> ALL (@known::integer[])
           AND (f.owner IS NULL OR f.owner = @reader::uuid OR f.lease_until < pg_catalog.clock_timestamp()
                OR EXISTS (SELECT FROM unnest(@silent::integer[], @silent_epochs::bigint[], @silent_until::timestamptz[]) AS z (lane, epoch, until)
                            WHERE z.lane = f.lane AND z.epoch = f.epoch AND z.until = f.lease_until))
         ORDER BY f.lane LIMIT @limit FOR NO KEY UPDATE SKIP LOCKED) AS free
 WHERE l.consumer = @consumer AND l.lane = free.lane
RETURNING l.lane, l.epoch, l.position, l.position_time, l.crashes > 1 OR l.tries > 0

-- query: Renew
-- Renews this reader's lanes by number and epoch: a row with another epoch runs out. A locked row is in use by this
-- reader's own transaction, which renews it, or just being taken.
UPDATE {schema}.inbox_lanes AS l
   SET lease_until = pg_catalog.clock_timestamp() + @ttl::interval
  FROM (SELECT f.lane FROM {schema}.inbox_lanes AS f
          JOIN unnest(@lanes::integer[], @epochs::bigint[]) AS h (lane, epoch) ON h.lane = f.lane AND h.epoch = f.epoch
         WHERE f.consumer = @consumer AND f.owner = @reader
         ORDER BY f.lane FOR NO KEY UPDATE OF f SKIP LOCKED) AS held
 WHERE l.consumer = @consumer AND l.lane = held.lane

-- query: Disown
-- Frees rows that name this reader, which does not read them: the database has forgotten a release, or the answer to an
-- acquisition was lost. The reader lives, so nothing of it counts as the end of a process.
UPDATE {schema}.inbox_lanes AS l
   SET owner = NULL, lease_until = NULL, tries = CASE WHEN l.tried_epoch = l.epoch THEN greatest(l.tries - 1, 0) ELSE l.tries END
  FROM (SELECT f.lane FROM {schema}.inbox_lanes AS f
         WHERE f.consumer = @consumer AND f.owner = @reader AND f.lane <> ALL (@known::integer[])
         ORDER BY f.lane FOR NO KEY UPDATE SKIP LOCKED) AS strange
 WHERE l.consumer = @consumer AND l.lane = strange.lane

-- query: Mine
SELECT lane, epoch, position FROM {schema}.inbox_lanes WHERE consumer = @consumer AND owner = @reader

-- query: Lanes
SELECT pg_catalog.count(*) FROM {schema}.inbox_lanes WHERE consumer = @consumer

-- query: Fence
-- First in a reader's transaction: no row means that the lane has another reader, or that the database has forgotten this
-- one's position.
UPDATE {schema}.inbox_lanes
   SET position = greatest(position, @position::bigint), position_time = CASE WHEN @position::bigint > position THEN @time ELSE position_time END,
       crashes = 0, tries = 0, lease_until = pg_catalog.clock_timestamp() + @ttl::interval
 WHERE consumer = @consumer AND lane = @lane AND owner = @reader AND epoch = @epoch AND position >= @known::bigint

-- query: Begin
-- Runs before the handler of a message that may have ended its process, and returns the number of beginnings, this one
-- included. A reader that begins it again under the same epoch came back from it.
UPDATE {schema}.inbox_lanes
   SET tries = CASE WHEN tried <> @sequence::bigint THEN 1 WHEN tried_epoch = epoch THEN tries ELSE tries + 1 END,
       tried = @sequence::bigint, tried_epoch = epoch
 WHERE consumer = @consumer AND lane = @lane AND owner = @reader AND epoch = @epoch AND position >= @known::bigint
RETURNING tries

-- query: Advance
-- Lanes with nothing pending are as far as their reader has read.
UPDATE {schema}.inbox_lanes AS l SET position = w.position, position_time = w.position_time
  FROM unnest(@lanes::integer[], @epochs::bigint[], @known::bigint[], @positions::bigint[], @times::bigint[]) AS w (lane, epoch, known, position, position_time)
 WHERE l.consumer = @consumer AND l.owner = @reader AND l.lane = w.lane AND l.epoch = w.epoch AND l.position >= w.known AND l.position < w.position

-- query: Release
-- A message that was begun under this epoch did not end its process: its beginning does not count.
UPDATE {schema}.inbox_lanes SET owner = NULL, lease_until = NULL,
       position = CASE WHEN position >= @known::bigint THEN greatest(position, @position::bigint) ELSE position END,
       position_time = CASE WHEN position >= @known::bigint AND @position::bigint > position THEN @time ELSE position_time END,
       tries = CASE WHEN tried_epoch = epoch THEN greatest(tries - 1, 0) ELSE tries END
 WHERE consumer = @consumer AND lane = @lane AND owner = @reader AND epoch = @epoch

-- query: RestartLanes
-- Another stream of the same name: its sequences begin anew, and so do the lanes, under new epochs.
UPDATE {schema}.inbox_lanes SET position = 0, position_time = 0, owner = NULL, lease_until = NULL, epoch = epoch + 1, tries = 0
 WHERE consumer = @consumer

-- query: Rewind
-- The stream has other messages now behind the position: this consumer goes back to it.
UPDATE {schema}.inbox_lanes SET position = @position::bigint, position_time = @time::bigint, owner = NULL, lease_until = NULL, epoch = epoch + 1, tries = 0
 WHERE consumer = @consumer AND position > @position::bigint
   AND (position, position_time) IN (SELECT * FROM unnest(@positions::bigint[], @times::bigint[]))

-- query: Marks
SELECT DISTINCT position, position_time FROM {schema}.inbox_lanes WHERE consumer = @consumer AND position > 0

-- query: AddConsumer
INSERT INTO {schema}.inbox_consumers (consumer, lanes, stream, stream_created) VALUES (@consumer, @lanes, @stream, @created) ON CONFLICT DO NOTHING

-- query: LockConsumer
SELECT lanes, stream, stream_created FROM {schema}.inbox_consumers WHERE consumer = @consumer FOR NO KEY UPDATE

-- query: RestartConsumer
UPDATE {schema}.inbox_consumers SET stream_created = @created WHERE consumer = @consumer

-- query: Beat
INSERT INTO {schema}.inbox_readers (consumer, reader, hostname, pid, alive_until, alive_ttl)
VALUES (@consumer, @reader, @hostname, @pid, pg_catalog.clock_timestamp() + @ttl::interval, @ttl::interval)
    ON CONFLICT (consumer, reader) DO UPDATE SET alive_until = EXCLUDED.alive_until, alive_ttl = EXCLUDED.alive_ttl

-- query: Leave
DELETE FROM {schema}.inbox_readers
 WHERE consumer = @consumer AND (reader = @reader OR alive_until < pg_catalog.clock_timestamp() - interval '1 hour')

-- query: Readers
-- Returns the readers, with the term of a sign of life that ends later than it can: the clock has stepped back.
SELECT reader, alive_until,
       CASE WHEN alive_until - pg_catalog.clock_timestamp() > alive_ttl + @steady::interval THEN alive_ttl END
  FROM {schema}.inbox_readers WHERE consumer = @consumer AND alive_until > pg_catalog.clock_timestamp() ORDER BY reader

-- query: Ahead
-- Returns the lanes whose leases end later than they can.
SELECT lane, epoch, lease_until, lease_ttl
  FROM {schema}.inbox_lanes
 WHERE consumer = @consumer AND owner IS NOT NULL AND lease_until - pg_catalog.clock_timestamp() > lease_ttl + @steady::interval

-- query: AddMalformed
INSERT INTO {schema}.inbox_malformed (consumer, stream_sequence, subject, reason, envelope, payload)
VALUES (@consumer, @sequence, @subject, @reason, @envelope, @payload)
    -- A stream that was made anew has other messages under the same sequences: the last one is kept.
    ON CONFLICT (consumer, stream_sequence) DO UPDATE
   SET received_at = clock_timestamp(), subject = EXCLUDED.subject, reason = EXCLUDED.reason, envelope = EXCLUDED.envelope, payload = EXCLUDED.payload
