-- query: Marking
-- Begins a mark.
SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '2s', true),
-- include: planning

-- query: MarkReady
-- include: held
-- include: done
       DELETE FROM {schema}.outbox_ready AS o
-- include: gone

-- query: MarkParked
-- include: held
-- include: done
       DELETE FROM {schema}.outbox_parked AS o
-- include: gone

-- query: MarkRanges
-- What MarkReady does, for batches of which every row was ready, was claimed for the
-- first time and was published. Such a batch is a range of its partition's keys, which is
-- the cheapest way to its rows, and what is recorded is known before.
--
-- A row may have left the range since, and with ordering: stream another one may have come.
-- So the rows that went are compared with those that were to go; a difference divides by
-- zero, which undoes everything.
-- @batches are their partitions; @lows and @highs are where a batch begins and ends in @sequences and @stream_sequences.
-- include: held
   , batches AS (
       SELECT held.partition_key, held.lease_epoch, m.low, m.high, m.first_stream, m.last_stream, m.dense, m.ascending
         FROM unnest(@batches::smallint[], @lows::int[], @highs::int[], @first_stream::bigint[], @last_stream::bigint[], @dense::boolean[], @ascending::boolean[])
                AS m (partition_key, low, high, first_stream, last_stream, dense, ascending)
         JOIN held USING (partition_key)),
     rows AS (
       SELECT partition_key, min(low) AS low, max(high) AS high
         FROM batches
        GROUP BY partition_key),
     gone AS (
       DELETE FROM {schema}.outbox_ready AS o
        USING batches
        WHERE o.partition_key = ANY (ARRAY[batches.partition_key])
          AND o.global_sequence BETWEEN (@sequences::bigint[])[batches.low] AND (@sequences::bigint[])[batches.high]
          AND o.generation = 0
    RETURNING o.partition_key, o.global_sequence),
     found AS (
       SELECT partition_key, array_agg(global_sequence ORDER BY global_sequence) AS sequences
         FROM gone
        GROUP BY partition_key),
     history AS (
       INSERT INTO {schema}.outbox_deliveries
              (partition_key, lease_epoch, first_sequence, last_sequence, sequences,
               first_stream_sequence, last_stream_sequence, stream_sequences, published_at, message_count)
       SELECT partition_key, lease_epoch, (@sequences::bigint[])[low], (@sequences::bigint[])[high],
              CASE WHEN NOT dense THEN (@sequences::bigint[])[low:high] END,
              first_stream, last_stream,
              CASE WHEN NOT ascending THEN (@stream_sequences::bigint[])[low:high] END,
              clock_timestamp(), high - low + 1
         FROM batches),
     counted AS (
       INSERT INTO {schema}.outbox_throughput AS t (minute, partition_key, published, retried, skipped)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, high - low + 1, 0, 0
         FROM rows
       ON CONFLICT (minute, partition_key) DO UPDATE
          SET published = t.published + EXCLUDED.published)
SELECT rows.partition_key,
       1 / CASE WHEN found.sequences = (@sequences::bigint[])[rows.low:rows.high] THEN 1 ELSE 0 END
  FROM rows
  LEFT JOIN found USING (partition_key)

-- fragment: held
-- How every mark begins: the lease rows of the partitions that are still this
-- worker's are locked in one order, one by one by their keys, compared, and carry
-- how far they are. One that is not as it was left divides by zero, which undoes everything;
-- one that has the number of this mark knows it: its answer was lost, and to make it again changes nothing.
WITH mine AS (
       SELECT m.partition_key, m.epoch, m.revision, m.delivered, m.fence, m.stream
         FROM unnest(@partitions::smallint[], @epochs::bigint[], @revisions::bigint[], @delivered::bigint[], @fence::bigint[], @stream::bigint[])
                AS m (partition_key, epoch, revision, delivered, fence, stream)
        ORDER BY m.partition_key),
     locked AS (
       SELECT mine.*, own.one
         FROM mine
        CROSS JOIN LATERAL (
                SELECT 1 /
                -- include: as_left
                       AS one
                  FROM {schema}.outbox_partitions AS l
                 WHERE l.partition_key = mine.partition_key
                   AND l.lease_owner IS NOT DISTINCT FROM @owner AND l.lease_epoch = mine.epoch
                   FOR NO KEY UPDATE) AS own),
     held AS (
       UPDATE {schema}.outbox_partitions AS p
          SET revision        = locked.revision + 1,
              delivered       = greatest(p.delivered, locked.delivered),
              fence_sequence  = greatest(p.fence_sequence, locked.fence),
              stream_sequence = greatest(p.stream_sequence, locked.stream),
              crashes         = 0,
              carrying        = false,
              updated_at      = clock_timestamp()
         FROM locked
        WHERE p.partition_key = locked.partition_key AND locked.one = 1
          AND p.lease_owner IS NOT DISTINCT FROM @owner AND p.lease_epoch = locked.epoch
    RETURNING p.partition_key, p.lease_epoch)

-- fragment: done
-- One statement for the finished rows of many partitions. The compare-and-set
-- on the lease rows comes first and holds them; what follows joins its result,
-- so that a partition whose lease went elsewhere keeps its rows. A row whose
-- generation was raised meanwhile is another message and stays.
--
-- PostgreSQL takes a table that a vacuum found empty for empty until the next
-- vacuum, whatever has come since, and then any scan of it for cheap. Therefore
-- the keys come complete and from one materialized set, and the first one is
-- compared by = ANY (ARRAY[...]): only the index can answer that, key by key.
   , done AS MATERIALIZED (
       SELECT held.partition_key, held.lease_epoch, d.sequence, d.stream_sequence, d.generation, d.stream_id
         FROM unnest(@row_partitions::smallint[], @sequences::bigint[], @stream_sequences::bigint[], @generations::int[], @stream_ids::text[])
                AS d (partition_key, sequence, stream_sequence, generation, stream_id)
         JOIN held USING (partition_key)),
     gone AS (

-- fragment: gone
        USING done
        WHERE o.partition_key = ANY (ARRAY[done.partition_key]) AND o.global_sequence = done.sequence
          AND o.stream_id = done.stream_id AND o.generation = done.generation
    RETURNING done.partition_key, done.lease_epoch, done.sequence, done.stream_sequence, o.attempts, o.scheduled_for, done.generation),
     history AS (
       INSERT INTO {schema}.outbox_deliveries
              (partition_key, lease_epoch, first_sequence, last_sequence, sequences,
               first_stream_sequence, last_stream_sequence, stream_sequences,
               skipped, attempts, generations, scheduled, published_at, message_count)
       SELECT partition_key, lease_epoch, min(sequence), max(sequence),
              CASE WHEN max(sequence) - min(sequence) + 1 > count(*)
                   THEN array_agg(sequence ORDER BY sequence) END,
              min(stream_sequence), max(stream_sequence),
              CASE WHEN max(stream_sequence) - min(stream_sequence) + 1 > count(*) OR count(*) > count(stream_sequence)
                     OR array_agg(stream_sequence ORDER BY sequence) IS DISTINCT FROM array_agg(stream_sequence ORDER BY stream_sequence)
                   THEN array_agg(stream_sequence ORDER BY sequence) END,
              array_agg(sequence ORDER BY sequence) FILTER (WHERE stream_sequence IS NULL),
              jsonb_object_agg(sequence, attempts) FILTER (WHERE attempts > 0),
              jsonb_object_agg(sequence, generation) FILTER (WHERE generation > 0),
              jsonb_object_agg(sequence, scheduled_for) FILTER (WHERE scheduled_for IS NOT NULL),
              clock_timestamp(), count(stream_sequence)
         FROM gone
        GROUP BY partition_key, lease_epoch),
     counted AS (
       INSERT INTO {schema}.outbox_throughput AS t (minute, partition_key, published, retried, skipped)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, count(stream_sequence),
              count(stream_sequence) FILTER (WHERE attempts > 0),
              count(*) FILTER (WHERE stream_sequence IS NULL)
         FROM gone
        GROUP BY partition_key
       ON CONFLICT (minute, partition_key) DO UPDATE
          SET published = t.published + EXCLUDED.published,
              retried   = t.retried   + EXCLUDED.retried,
              skipped   = t.skipped   + EXCLUDED.skipped)
SELECT partition_key FROM held
