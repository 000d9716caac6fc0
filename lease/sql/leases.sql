-- query: Snapshot
-- Leases of a freezer that died count as free.
SELECT p.partition_key, nullif(p.lease_owner, s.gone), p.lease_until, p.lease_until - s.at AS time_left, p.lease_ttl,
       p.lease_epoch, p.delivered, p.paused_at, p.crashes, s.at, s.frozen
  FROM {schema}.outbox_partitions AS p,
       (SELECT z.at, z.frozen, CASE WHEN NOT z.frozen THEN z.frozen_by END AS gone
          FROM (SELECT clock_timestamp() AS at,
                       -- include: frozen
                       AS frozen, s.frozen_by FROM {schema}.outbox_settings AS s) AS z) AS s
 ORDER BY p.partition_key

-- query: Count
SELECT count(*) FROM {schema}.outbox_partitions

-- query: Acquire
-- Takes the free partitions among @partitions. A row that still names this worker is free,
-- too: the process has given that lease up before it asks. So is the row of a freezer
-- that died. A clock that stepped back prolongs leases: such a row is free while it
-- equals the one that was watched for a whole TTL (@silent).
-- SKIP LOCKED: a locked row goes to the worker that is taking it.
-- While the outbox is frozen only @resizing gets leases.
-- A predecessor that let its lease run out may have crashed over its work.
-- The same statement writes the history: both are done or neither.
WITH freezer AS MATERIALIZED (
       SELECT s.frozen_by,
              -- include: frozen
              AS holds FROM {schema}.outbox_settings AS s),
     taken AS (
       UPDATE {schema}.outbox_partitions AS p
          SET lease_owner = @owner,
              lease_epoch = p.lease_epoch + 1,
              lease_until = clock_timestamp() + @ttl::interval,
              lease_ttl   = @ttl::interval,
              released_by = NULL,
              crashes     = p.crashes + (p.lease_owner IS NOT NULL AND p.lease_owner <> @owner AND (p.carrying OR p.crashes = 0))::int,
              carrying    = false,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key, f.lease_owner, f.lease_until, f.released_by
                 FROM {schema}.outbox_partitions AS f
                WHERE f.partition_key = ANY (@partitions::smallint[])
                  AND (f.lease_owner IS NULL OR f.lease_owner = @owner OR f.lease_until < clock_timestamp()
                       OR f.lease_owner = (SELECT z.frozen_by FROM freezer AS z WHERE NOT z.holds)
                       OR EXISTS (SELECT FROM unnest(@silent::smallint[], @silent_epochs::bigint[], @silent_until::timestamptz[]) AS z (partition_key, epoch, until)
                                   WHERE z.partition_key = f.partition_key AND z.epoch = f.lease_epoch AND z.until = f.lease_until))
                  AND (@resizing::boolean OR NOT (SELECT z.holds FROM freezer AS z))
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f SKIP LOCKED) AS was
        WHERE p.partition_key = was.partition_key
    -- include: returned
              was.lease_owner AS silent, was.lease_until AS ran_out, was.released_by),
     told AS (
       INSERT INTO {schema}.outbox_ownership
              (kind, worker_id, hostname, previous_id, previous_hostname, lease_until, partition_keys, lease_epochs)
       SELECT c.kind, @owner, coalesce((SELECT w.hostname FROM {schema}.outbox_workers AS w WHERE w.worker_id = @owner), @host::text),
              c.previous,
              -- include: previous_hostname
              , c.ran_out, c.partition_keys, c.lease_epochs
         FROM (SELECT CASE WHEN @resizing::boolean                          THEN 'resizing'
                           WHEN coalesce(t.silent, t.released_by) = @owner  THEN 'retaken'
                           WHEN t.silent IS NOT NULL                        THEN 'taken-over'
                           WHEN t.released_by IS NOT NULL                   THEN 'moved'
                           ELSE 'taken' END AS kind,
                      coalesce(t.silent, t.released_by) AS previous,
                      max(t.ran_out) FILTER (WHERE t.silent <> @owner AND t.ran_out < clock_timestamp()) AS ran_out,
                      array_agg(t.partition_key ORDER BY t.partition_key) AS partition_keys,
                      array_agg(t.lease_epoch ORDER BY t.partition_key) AS lease_epochs
                 FROM taken AS t
                GROUP BY 1, 2) AS c
        ORDER BY c.partition_keys[1])
-- include: taken

-- query: AcquireSolo
-- Raises the epoch of every partition and leaves the owner empty: only the history has @name. A predecessor's end is unknown:
-- the first one counts as a crash, and so does each later one with messages in flight, until something is settled.
WITH taken AS (
       UPDATE {schema}.outbox_partitions AS p
          SET lease_owner = NULL,
              lease_until = NULL,
              lease_epoch = p.lease_epoch + 1,
              crashes     = p.crashes + (p.carrying OR p.crashes = 0)::int,
              carrying    = false,
              released_by = NULL,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key, f.lease_owner, f.released_by
                 FROM {schema}.outbox_partitions AS f
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f) AS was
        WHERE p.partition_key = was.partition_key
    -- include: returned
              coalesce(was.lease_owner, was.released_by) AS previous),
     told AS (
       INSERT INTO {schema}.outbox_ownership
              (kind, worker_id, hostname, previous_id, previous_hostname, partition_keys, lease_epochs)
       SELECT 'solo', @name::uuid, @host::text, c.previous,
              -- include: previous_hostname
              , c.partition_keys, c.lease_epochs
         FROM (SELECT t.previous,
                      array_agg(t.partition_key ORDER BY t.partition_key) AS partition_keys,
                      array_agg(t.lease_epoch ORDER BY t.partition_key) AS lease_epochs
                 FROM taken AS t
                GROUP BY t.previous) AS c
        ORDER BY c.partition_keys[1])
-- include: taken

-- query: LeasedElsewhere
-- Members and leases, which refuse a worker without leasing; with the TTL where one ends later than it can, since the
-- clock has stepped back. Leases of a freezer that died do not count.
SELECT false, w.worker_id::text, w.heartbeat_until,
       CASE WHEN w.heartbeat_until > clock_timestamp() + w.heartbeat_ttl + @steady::interval THEN w.heartbeat_ttl END
  FROM {schema}.outbox_workers AS w
 WHERE w.heartbeat_until > clock_timestamp()
 UNION ALL
SELECT true, p.partition_key::text, p.lease_until,
       CASE WHEN p.lease_until > clock_timestamp() + p.lease_ttl + @steady::interval THEN p.lease_ttl END
  FROM {schema}.outbox_partitions AS p
 CROSS JOIN (SELECT s.frozen_by,
                    -- include: frozen
                    AS holds FROM {schema}.outbox_settings AS s) AS freezer
 WHERE p.lease_owner IS NOT NULL AND p.lease_until > clock_timestamp()
   AND (freezer.holds OR p.lease_owner IS DISTINCT FROM freezer.frozen_by)

-- query: LockPatience
-- Bounds the wait of this transaction for locked rows.
SELECT set_config('lock_timeout', @patience, true)

-- query: Renew
-- All leases of this worker in one statement; rows are locked in one order, so
-- that it cannot deadlock with the worker's own marks.
UPDATE {schema}.outbox_partitions AS p
   SET lease_until = clock_timestamp() + @ttl::interval,
       lease_ttl   = @ttl::interval,
       updated_at  = clock_timestamp()
  FROM (SELECT f.partition_key
          FROM unnest(@partitions::smallint[], @epochs::bigint[]) AS mine (partition_key, epoch)
          JOIN {schema}.outbox_partitions AS f USING (partition_key)
         WHERE f.lease_owner = @owner AND f.lease_epoch = mine.epoch
         ORDER BY f.partition_key
           FOR NO KEY UPDATE OF f) AS held
 WHERE p.partition_key = held.partition_key
RETURNING p.partition_key,
          -- include: database

-- query: RenewFree
-- As Renew, passing over locked rows. Such a row is not renewed, but still ours as
-- far as this statement's snapshot shows.
WITH mine AS (
       SELECT m.partition_key, m.epoch FROM unnest(@partitions::smallint[], @epochs::bigint[]) AS m (partition_key, epoch)),
     renewed AS (
       UPDATE {schema}.outbox_partitions AS p
          SET lease_until = clock_timestamp() + @ttl::interval,
              lease_ttl   = @ttl::interval,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key
                 FROM mine JOIN {schema}.outbox_partitions AS f USING (partition_key)
                WHERE f.lease_owner = @owner AND f.lease_epoch = mine.epoch
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f SKIP LOCKED) AS held
        WHERE p.partition_key = held.partition_key
    RETURNING p.partition_key)
SELECT mine.partition_key, renewed.partition_key IS NOT NULL,
          -- include: database
  FROM mine
  JOIN {schema}.outbox_partitions AS f USING (partition_key)
  LEFT JOIN renewed USING (partition_key)
 WHERE renewed.partition_key IS NOT NULL OR (f.lease_owner = @owner AND f.lease_epoch = mine.epoch)

-- query: Release
WITH released AS (
       UPDATE {schema}.outbox_partitions AS p
          SET lease_owner = NULL,
              lease_until = NULL,
              released_by = @owner,
              updated_at  = clock_timestamp()
         FROM (SELECT f.partition_key
                 FROM unnest(@partitions::smallint[], @epochs::bigint[]) AS mine (partition_key, epoch)
                 JOIN {schema}.outbox_partitions AS f USING (partition_key)
                WHERE f.lease_owner = @owner AND f.lease_epoch = mine.epoch
                ORDER BY f.partition_key
                  FOR NO KEY UPDATE OF f) AS held
        WHERE p.partition_key = held.partition_key
    RETURNING p.partition_key, p.lease_epoch),
     -- include: released

-- query: Disown
-- Frees rows with this worker's name that the worker does not know: the answer to
-- an acquisition was lost.
WITH released AS (
       UPDATE {schema}.outbox_partitions AS p
          SET lease_owner = NULL,
              lease_until = NULL,
              released_by = @owner,
              updated_at  = clock_timestamp()
        WHERE p.lease_owner = @owner
    RETURNING p.partition_key, p.lease_epoch),
     -- include: released

-- query: SyncAdd
-- Adds the missing rows of partitions up to @count. A removed one goes on with its epoch
-- and positions, as the stream knows them. For a row that was deleted by hand the history
-- has them: without, losses of the stream would go unnoticed.
WITH back AS (
       DELETE FROM {schema}.outbox_former_partitions
        WHERE partition_key < @count::int
    RETURNING partition_key, lease_epoch, fence_sequence, stream_sequence)
INSERT INTO {schema}.outbox_partitions (partition_key, lease_epoch, fence_sequence, stream_sequence)
SELECT n, coalesce(b.lease_epoch, h.epoch, 0), coalesce(b.fence_sequence, h.known, 0), coalesce(b.stream_sequence, h.known, 0)
  FROM generate_series(0, @count::int - 1) AS n
  LEFT JOIN back AS b ON b.partition_key = n
  LEFT JOIN LATERAL (SELECT max(d.lease_epoch) AS epoch, max(least(d.last_stream_sequence, d.lost_after)) AS known
                       FROM {schema}.outbox_deliveries AS d
                      CROSS JOIN {schema}.outbox_settings AS s
                      WHERE d.partition_key = n AND d.id > coalesce(s.resized_delivery, 0)) AS h ON b.partition_key IS NULL
 WHERE NOT EXISTS (SELECT FROM {schema}.outbox_partitions AS p WHERE p.partition_key = n)
ON CONFLICT (partition_key) DO NOTHING

-- query: SyncPrune
-- Removes empty rows that are free or @owner's. Their positions are kept, as the stream
-- knows them.
WITH gone AS (
       DELETE FROM {schema}.outbox_partitions AS p
        WHERE p.partition_key >= @count::int
          AND (p.lease_owner IS NULL OR p.lease_owner = @owner OR p.lease_until < clock_timestamp())
          AND NOT EXISTS (SELECT FROM {schema}.outbox AS o WHERE o.partition_key = p.partition_key)
    RETURNING p.partition_key, p.lease_epoch, coalesce(p.lease_owner, p.released_by) AS previous,
              -- include: known
       ),
     told AS (
       INSERT INTO {schema}.outbox_ownership (kind, previous_id, previous_hostname, partition_keys, lease_epochs)
       SELECT 'removed', c.previous,
              -- include: previous_hostname
              , c.partition_keys, c.lease_epochs
         FROM (SELECT g.previous,
                      array_agg(g.partition_key ORDER BY g.partition_key) AS partition_keys,
                      array_agg(g.lease_epoch ORDER BY g.partition_key) AS lease_epochs
                 FROM gone AS g
                GROUP BY g.previous) AS c)
INSERT INTO {schema}.outbox_former_partitions AS f (partition_key, lease_epoch, fence_sequence, stream_sequence)
SELECT partition_key, lease_epoch, fence_sequence, stream_sequence
  FROM gone
ON CONFLICT (partition_key) DO UPDATE
   SET lease_epoch     = greatest(f.lease_epoch, EXCLUDED.lease_epoch),
       fence_sequence  = EXCLUDED.fence_sequence,
       stream_sequence = EXCLUDED.stream_sequence,
       removed_at      = EXCLUDED.removed_at

-- fragment: database
-- Names the database by its cluster and timeline. Another one may have forgotten reads and marks.
          {database}

-- fragment: returned
    RETURNING p.partition_key, p.lease_epoch, p.delivered, p.crashes, p.stream_life,
              -- include: known
              ,

-- fragment: known
-- Lost positions that were only reported still count, for the next owner to report, or to heal.
              greatest(p.fence_sequence, p.lost_sequence) AS fence_sequence, greatest(p.stream_sequence, p.lost_sequence) AS stream_sequence

-- fragment: taken
SELECT taken.partition_key, taken.lease_epoch, taken.delivered, taken.fence_sequence, taken.stream_sequence, taken.stream_life, taken.crashes,
       -- include: database
  FROM taken

-- fragment: released
     told AS (
       INSERT INTO {schema}.outbox_ownership (kind, previous_id, previous_hostname, partition_keys, lease_epochs)
       SELECT 'released', c.previous,
              -- include: previous_hostname
              , c.partition_keys, c.lease_epochs
         FROM (SELECT @owner::uuid AS previous,
                      array_agg(r.partition_key ORDER BY r.partition_key) AS partition_keys,
                      array_agg(r.lease_epoch ORDER BY r.partition_key) AS lease_epochs
                 FROM released AS r
               HAVING count(*) > 0) AS c)
SELECT released.partition_key
  FROM released

-- query: History
-- The newest first. Rows name few partitions each: the search for one partition takes
-- some milliseconds.
SELECT o.id, o.changed_at, o.kind, o.previous_id, coalesce(o.previous_hostname, ''), o.worker_id, coalesce(o.hostname, ''),
       o.lease_until, o.partition_keys, o.lease_epochs
  FROM {schema}.outbox_ownership AS o
 WHERE (@before::bigint = 0 OR o.id < @before)
   AND (@partition::smallint IS NULL OR @partition = ANY (o.partition_keys))
   AND (@since::timestamptz IS NULL OR o.changed_at >= @since)
   AND (@until::timestamptz IS NULL OR o.changed_at <= @until)
 ORDER BY o.id DESC
 LIMIT @limit

-- query: HistoryBegins
SELECT (SELECT o.changed_at FROM {schema}.outbox_ownership AS o ORDER BY o.id LIMIT 1)

-- fragment: previous_hostname
-- The host of the worker c.previous; once its row is gone, the last one in the history.
coalesce((SELECT w.hostname FROM {schema}.outbox_workers AS w WHERE w.worker_id = c.previous),
         (SELECT CASE WHEN o.worker_id = c.previous THEN o.hostname ELSE o.previous_hostname END
            FROM {schema}.outbox_ownership AS o
           WHERE c.previous IS NOT NULL AND (o.worker_id = c.previous OR o.previous_id = c.previous)
           ORDER BY o.id DESC
           LIMIT 1))

-- query: LockFreeze
-- Takes the freezer's lock until the transaction ends. Returns the previous freezer, and
-- no row while that one is at work.
SELECT s.frozen_by
  FROM {schema}.outbox_settings AS s
 WHERE pg_try_advisory_xact_lock(hashtext('postrider freeze'), hashtext(s.outbox_id::text))

-- query: StayIdle
-- The session stays idle during the freezer's work. The server notices within a minute, whatever its clock does, that the
-- other side has vanished: then its lock goes.
SELECT set_config('idle_in_transaction_session_timeout', '0', true), set_config('tcp_keepalives_idle', '15', true),
       set_config('tcp_keepalives_interval', '15', true), set_config('tcp_keepalives_count', '3', true),
       CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', true) END

-- query: Freeze
UPDATE {schema}.outbox_settings SET frozen_at = clock_timestamp(), frozen_by = @owner

-- query: Thaw
UPDATE {schema}.outbox_settings SET frozen_at = NULL, frozen_by = NULL WHERE frozen_by = @owner

-- query: Census
-- Counts the partitions, and with a resize at work those that it holds.
SELECT z.partition_count, z.frozen, (SELECT count(*) FROM {schema}.outbox_partitions AS p WHERE z.frozen AND p.lease_owner = z.frozen_by), z.resized_at
  FROM (SELECT s.partition_count, s.frozen_by, s.resized_at,
               -- include: frozen
               AS frozen FROM {schema}.outbox_settings AS s) AS z

-- fragment: frozen
-- True while a living session has frozen the outbox of the settings s: it holds the lock.
-- The lock is looked for only under a freeze.
CASE WHEN s.frozen_at > clock_timestamp() - interval '1 minute'
     THEN EXISTS (SELECT
                    FROM pg_locks AS k
                   WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2
                     AND k.classid = hashtext('postrider freeze')::oid AND k.objid = hashtext(s.outbox_id::text)::oid
                     AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
     ELSE false END
