-- query: Undelivered
-- What the database knows of sequences that the stream's last record names: the
-- event, by its identity, and whether it still waits in the outbox; and whether one
-- that is missing should be there. @record is where that record lies.
--
-- What was published is marked in a later transaction. So a database that knows the
-- mark has known the events: they were removed on purpose. One whose marks end before
-- that record has forgotten them. Where the partition knows of no record or of later
-- ones, as behind a resize or another stream, events below the lowest that is left and
-- those that the history has count as removed.
SELECT n.sequence, e.event_id, o.global_sequence IS NOT NULL,
       coalesce(o.generation, 0), coalesce(o.attempts, 0), coalesce(o.stream_id, ''), coalesce(o.topic, ''), coalesce(o.parked, false),
       CASE WHEN p.fence_sequence = @record::bigint                            THEN false
            WHEN p.fence_sequence > 0 AND p.fence_sequence < @record::bigint THEN true
            ELSE e.event_id IS NULL
             AND n.sequence >= (SELECT coalesce(min(h.sequence), 0) FROM {events} AS h)
             AND NOT EXISTS (SELECT FROM {schema}.outbox_deliveries AS d
                              WHERE d.partition_key = @partition AND d.first_sequence <= n.sequence AND d.last_sequence >= n.sequence
                                AND (d.sequences IS NULL OR n.sequence = ANY (d.sequences))) END
  FROM unnest(@sequences::bigint[]) AS n (sequence)
  LEFT JOIN {events} AS e ON e.sequence = n.sequence
  LEFT JOIN {schema}.outbox_partitions AS p ON p.partition_key = @partition
  LEFT JOIN {schema}.outbox AS o ON o.partition_key = @partition AND o.global_sequence = n.sequence
 ORDER BY n.sequence

-- query: Take
-- Gives the row a number that it never had: no claim and no mark of an earlier takeover finds it as it was left. Returns where
-- the last record lies whose messages, and those of all before it, are marked, and in which life of the records: where the
-- row knows of none, @life.
UPDATE {schema}.outbox_partitions
   SET revision    = @revision,
       stream_life = coalesce(nullif(stream_life, ''), @life),
       taken_on    = pg_postmaster_start_time(),
       updated_at  = clock_timestamp()
 WHERE partition_key = @partition AND lease_owner IS NOT DISTINCT FROM @owner AND lease_epoch = @epoch
RETURNING fence_sequence, stream_life

-- query: Forgotten
-- Partitions whose rows are not as they were left.
SELECT l.partition_key
  FROM unnest(@partitions::smallint[], @revisions::bigint[]) AS mine (partition_key, revision)
  JOIN {schema}.outbox_partitions AS l USING (partition_key)
 WHERE 0 =
-- include: as_left

-- fragment: as_left
-- Whether the row l is as its owner left it: 1, or else 0. It may have one mark more, whose answer is under way or was lost.
-- What the server has forgotten, by a crash or a failover, shows here. On another server, or one that was started again,
-- sequences may be those of other events. NULL: who asks left nothing.
       CASE WHEN mine.revision IS NULL OR l.revision BETWEEN mine.revision AND mine.revision + 1 AND l.taken_on = pg_postmaster_start_time() THEN 1 ELSE 0 END

-- query: Unblock
-- For a new owner, whose policy may be another than its predecessor's: the rows
-- that its policy blocks by nothing. @skip_dead: dead rows block nothing; @passes: nothing
-- blocks. Rows only become unblocked here; claims look at the order themselves.
UPDATE {schema}.outbox_parked AS p
   SET blocked = false
 WHERE p.partition_key = (SELECT l.partition_key
                            FROM {schema}.outbox_partitions AS l
                           WHERE l.partition_key = @partition AND l.lease_owner IS NOT DISTINCT FROM @owner AND l.lease_epoch = @epoch
                             FOR NO KEY UPDATE)
   AND p.blocked
   AND (@passes::boolean
        OR NOT EXISTS (SELECT FROM {schema}.outbox_parked AS e
                        WHERE e.partition_key = p.partition_key
                          AND e.stream_id = p.stream_id
                          AND e.global_sequence < p.global_sequence
                          AND NOT (@skip_dead::boolean AND e.dead_at IS NOT NULL)))

-- query: Carrying
-- Notes, before messages of partitions are given to the publisher behind a crash, that they are, or that nothing came of it. Rows are
-- locked in one order, as marks do.
UPDATE {schema}.outbox_partitions AS p
   SET carrying = @carrying, updated_at = clock_timestamp()
  FROM (SELECT l.partition_key
          FROM unnest(@partitions::smallint[], @epochs::bigint[]) AS mine (partition_key, epoch)
          JOIN {schema}.outbox_partitions AS l USING (partition_key)
         WHERE l.lease_owner IS NOT DISTINCT FROM @owner AND l.lease_epoch = mine.epoch
         ORDER BY l.partition_key
           FOR NO KEY UPDATE OF l) AS held
 WHERE p.partition_key = held.partition_key

-- query: PauseOver
-- Pauses a partition over which @most owners ended, if something waits in it, and tells its first message. One more end pauses it again.
WITH first AS (
       SELECT o.global_sequence, o.stream_id
         FROM {schema}.outbox AS o
        WHERE o.partition_key = @partition AND NOT o.blocked AND o.dead_at IS NULL
        ORDER BY o.global_sequence
        LIMIT 1),
     ended AS (
       UPDATE {schema}.outbox_partitions
          SET crashes    = @most - 1,
              paused_at  = CASE WHEN EXISTS (SELECT FROM first) THEN coalesce(paused_at, clock_timestamp()) ELSE paused_at END,
              updated_at = clock_timestamp()
        WHERE partition_key = @partition AND lease_owner IS NOT DISTINCT FROM @owner AND lease_epoch = @epoch AND crashes >= @most::int
    RETURNING crashes),
     told AS (
       INSERT INTO {schema}.outbox_audit (actor, action, target, reason, details)
       SELECT 'postrider', 'partition.pause', jsonb_build_object('partitions', ARRAY[@partition::int]), @reason,
              jsonb_build_object('count', 1, 'sequence', first.global_sequence, 'stream_id', first.stream_id)
         FROM ended, first)
SELECT first.global_sequence, first.stream_id FROM ended, first

-- query: Raise
-- The stream knows a higher epoch than this lease's: the row was made anew, or the
-- database is older than the stream. The next owner begins above it. A newer owner's
-- row is left alone.
UPDATE {schema}.outbox_partitions
   SET lease_epoch = @known,
       updated_at  = clock_timestamp()
 WHERE partition_key = @partition AND lease_owner IS NOT DISTINCT FROM @owner AND lease_epoch = @epoch
   AND lease_epoch < @known

-- query: Regress
-- The database has forgotten what was published under the generation @era: from now on
-- every message carries a higher one, and the log of operators' actions says why. What
-- is noticed later of the same loss finds the generation raised; the settings' row
-- decides who comes first.
WITH raised AS (
       UPDATE {schema}.outbox_settings AS s
          SET generation = @era::int + 1,
              regressed  = clock_timestamp()
        WHERE s.generation <= @era::int
    RETURNING s.generation),
     audited AS (
       INSERT INTO {schema}.outbox_audit (actor, action, target, reason, details)
       SELECT 'postrider', 'database.regressed', jsonb_build_object('partition', @partition::int), @reason,
              jsonb_build_object('generation', raised.generation, 'partition', @partition::int)
         FROM raised)
SELECT coalesce((SELECT generation FROM raised), 0)
