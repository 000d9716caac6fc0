-- What mark.sql does, for batches of which every row was ready, was claimed for the
-- first time, was published, and lies where the claim saw it. A list of places is
-- the cheapest way to a row, and what is recorded is known before.
--
-- A place may hold another row by now, or none. So the rows that went are compared
-- with those that were to go; a difference divides by zero, which undoes everything.
-- The sum keeps the index out: while the table is small, a scan of the partition
-- looks as cheap as its places, and the plan stays when it has grown.
-- $7 and $8 are where a partition's rows begin and end in $12 and $13.
{held},
     batches AS (
       SELECT held.partition_key, held.lease_epoch, m.low, m.high, m.first_stream, m.last_stream, m.dense, m.ascending
         FROM unnest($2::smallint[], $7::int[], $8::int[], $9::bigint[], $6::bigint[], $10::boolean[], $11::boolean[])
                AS m (partition_key, low, high, first_stream, last_stream, dense, ascending)
         JOIN held USING (partition_key)),
     gone AS (
       DELETE FROM {schema}.outbox_ready AS o
        WHERE o.ctid = ANY ($14::tid[])
          AND o.partition_key + 0 = ANY (ARRAY(SELECT held.partition_key::int FROM held))
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
              first_stream, last_stream,
              CASE WHEN NOT ascending THEN ($13::bigint[])[low:high] END,
              clock_timestamp(), high - low + 1
         FROM batches),
     counted AS (
       INSERT INTO {schema}.outbox_throughput AS t (minute, partition_key, published, retried, skipped)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, high - low + 1, 0, 0
         FROM batches
       ON CONFLICT (minute, partition_key) DO UPDATE
          SET published = t.published + EXCLUDED.published)
SELECT batches.partition_key, clock_timestamp(),
       1 / CASE WHEN found.sequences = ($12::bigint[])[batches.low:batches.high] THEN 1 ELSE 0 END
  FROM batches
  LEFT JOIN found USING (partition_key)
