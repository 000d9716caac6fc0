-- What mark.sql does, for batches of which every row was ready, was claimed for the
-- first time, was published, and lies where the claim saw it. A list of places is
-- the cheapest way to a row, and what is recorded is known before.
--
-- A place may hold another row by now, or none. So the rows that went are compared
-- with those that were to go; a difference divides by zero, which undoes everything.
-- $7 and $8 are where a partition's rows begin and end in $12 and $13.
WITH mine AS (
       SELECT m.partition_key, m.epoch, m.delivered, m.fence, m.stream, m.low, m.high, m.first_stream, m.dense, m.ascending
         FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                     $7::int[], $8::int[], $9::bigint[], $10::boolean[], $11::boolean[])
                AS m (partition_key, epoch, delivered, fence, stream, low, high, first_stream, dense, ascending)),
     locked AS (
       SELECT mine.*
         FROM mine JOIN {schema}.outbox_partitions AS f USING (partition_key)
        WHERE f.lease_owner IS NOT DISTINCT FROM $1 AND f.lease_epoch = mine.epoch
        ORDER BY f.partition_key
          FOR NO KEY UPDATE OF f),
     held AS (
       UPDATE {schema}.outbox_partitions AS p
          SET delivered       = greatest(p.delivered, locked.delivered),
              fence_sequence  = greatest(p.fence_sequence, locked.fence),
              stream_sequence = greatest(p.stream_sequence, locked.stream),
              crashes         = 0,
              suspect         = NULL,
              suspected       = 0,
              updated_at      = clock_timestamp()
         FROM locked
        WHERE p.partition_key = locked.partition_key
          AND p.lease_owner IS NOT DISTINCT FROM $1 AND p.lease_epoch = locked.epoch
    RETURNING p.partition_key, p.lease_epoch, locked.stream, locked.low, locked.high, locked.first_stream, locked.dense, locked.ascending),
     gone AS (
       DELETE FROM {schema}.outbox_ready AS o
        WHERE o.ctid = ANY ($14::tid[])
          AND o.partition_key = ANY (ARRAY(SELECT held.partition_key FROM held))
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
       SELECT partition_key, lease_epoch, ($12::bigint[])[low], ($12::bigint[])[high],
              CASE WHEN NOT dense THEN ($12::bigint[])[low:high] END,
              first_stream, stream,
              CASE WHEN NOT ascending THEN ($13::bigint[])[low:high] END,
              clock_timestamp(), high - low + 1
         FROM held),
     counted AS (
       INSERT INTO {schema}.outbox_throughput AS t (minute, partition_key, published, retried, skipped)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, high - low + 1, 0, 0
         FROM held
       ON CONFLICT (minute, partition_key) DO UPDATE
          SET published = t.published + EXCLUDED.published)
SELECT held.partition_key, clock_timestamp(),
       1 / CASE WHEN found.sequences = ($12::bigint[])[held.low:held.high] THEN 1 ELSE 0 END
  FROM held
  LEFT JOIN found USING (partition_key)
