-- One statement for the finished rows of many partitions. The compare-and-set
-- on the lease rows comes first and holds them; what follows joins its result,
-- so that a partition whose lease went elsewhere keeps its rows. A row whose
-- generation was raised meanwhile is another message and stays.
--
-- PostgreSQL takes a table that a vacuum found empty for empty until the next
-- vacuum, whatever has come since, and then any scan of it for cheap. Therefore
-- the keys come complete and from one materialized set, and the first one is
-- compared by = ANY (ARRAY[...]): only the index can answer that, key by key.
{held},
     done AS MATERIALIZED (
       SELECT held.partition_key, held.lease_epoch, d.sequence, d.stream_sequence, d.generation, d.stream_id
         FROM unnest($7::smallint[], $8::bigint[], $9::bigint[], $10::int[], $11::text[])
                AS d (partition_key, sequence, stream_sequence, generation, stream_id)
         JOIN held USING (partition_key)),
     gone AS (
       DELETE FROM {schema}.{rows} AS o
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
SELECT partition_key, clock_timestamp() FROM held
