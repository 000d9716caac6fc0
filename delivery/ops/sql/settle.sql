-- Rows of the state $4 go and are recorded as settled without a message, with $3 as
-- discarded; the answer is what they were. Of those that wait for their time only
-- the ones that hold.sql keeps from the workers.
WITH gone AS (
       DELETE FROM {schema}.outbox AS o
        USING unnest($1::smallint[], $2::bigint[]) AS s (partition_key, sequence)
        WHERE o.parked AND o.partition_key = s.partition_key AND o.global_sequence = s.sequence
          AND {state} = $4 AND ($4 <> 'scheduled' OR o.available_at = 'infinity')
    RETURNING o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error),
     history AS (
       INSERT INTO {schema}.outbox_deliveries
              (partition_key, lease_epoch, first_sequence, last_sequence, sequences, stream_sequences,
               skipped, discarded, attempts, generations, published_at, message_count)
       SELECT gone.partition_key, coalesce(max(l.lease_epoch), 0), min(global_sequence), max(global_sequence),
              CASE WHEN max(global_sequence) - min(global_sequence) + 1 > count(*)
                   THEN array_agg(global_sequence ORDER BY global_sequence) END,
              array_fill(NULL::bigint, ARRAY[count(*)::int]),
              array_agg(global_sequence ORDER BY global_sequence),
              CASE WHEN $3::boolean THEN array_agg(global_sequence ORDER BY global_sequence) END,
              jsonb_object_agg(global_sequence, attempts) FILTER (WHERE attempts > 0),
              jsonb_object_agg(global_sequence, generation) FILTER (WHERE generation > 0),
              clock_timestamp(), 0
         FROM gone LEFT JOIN {schema}.outbox_partitions AS l ON l.partition_key = gone.partition_key
        GROUP BY gone.partition_key),
     counted AS (
       INSERT INTO {schema}.outbox_throughput AS t (minute, partition_key, skipped)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, count(*)
         FROM gone
        GROUP BY partition_key
       ON CONFLICT (minute, partition_key) DO UPDATE SET skipped = t.skipped + EXCLUDED.skipped)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM gone
 ORDER BY partition_key, global_sequence
