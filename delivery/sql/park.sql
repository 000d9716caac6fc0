-- Takes rows that cannot be published now out of the hot path. A failed row
-- waits for its next attempt, a dead one for a person, a blocked one for the
-- rows before it in its stream. The last ten failures stay with the row.
WITH locked AS (
       SELECT f.partition_key, mine.epoch
         FROM unnest($2::smallint[], $3::bigint[]) AS mine (partition_key, epoch)
         JOIN {schema}.outbox_partitions AS f USING (partition_key)
        WHERE f.lease_owner IS NOT DISTINCT FROM $1 AND f.lease_epoch = mine.epoch
        ORDER BY f.partition_key
          FOR NO KEY UPDATE OF f),
     held AS (
       UPDATE {schema}.outbox_partitions AS p
          SET updated_at = clock_timestamp()
         FROM locked
        WHERE p.partition_key = locked.partition_key
          AND p.lease_owner IS NOT DISTINCT FROM $1 AND p.lease_epoch = locked.epoch
    RETURNING p.partition_key),
     failed AS MATERIALIZED (
       SELECT held.partition_key, d.sequence, d.stream_id, d.attempts, d.counted, d.delay, d.dead, d.blocked, d.reason, d.class
         FROM unnest($4::smallint[], $5::bigint[], $6::text[], $7::int[], $8::int[], $9::interval[], $10::boolean[], $11::boolean[], $12::text[], $13::text[])
                AS d (partition_key, sequence, stream_id, attempts, counted, delay, dead, blocked, reason, class)
         JOIN held USING (partition_key)),
     moved AS (
       UPDATE {schema}.outbox AS o
          SET parked       = true,
              blocked      = failed.blocked,
              attempts     = o.attempts + failed.counted,
              available_at = CASE WHEN failed.counted > 0 THEN clock_timestamp() + failed.delay ELSE o.available_at END,
              dead_at      = CASE WHEN failed.dead THEN clock_timestamp() ELSE o.dead_at END,
              last_error   = coalesce(failed.reason, o.last_error),
              failures     = CASE WHEN failed.counted > 0
                                  THEN CASE WHEN jsonb_array_length(o.failures) >= 10 THEN o.failures - 0 ELSE coalesce(o.failures, '[]') END
                                       || jsonb_build_object('at', clock_timestamp(), 'worker_id', $1::uuid, 'class', failed.class, 'text', failed.reason)
                                  ELSE o.failures END
         FROM failed
        WHERE o.partition_key = ANY (ARRAY[failed.partition_key]) AND o.global_sequence = failed.sequence
          AND o.stream_id = failed.stream_id AND o.attempts = failed.attempts
    RETURNING failed.partition_key, failed.counted),
     counted AS (
       INSERT INTO {schema}.outbox_throughput AS t (minute, partition_key, failed)
       SELECT date_trunc('minute', clock_timestamp()), partition_key, sum(counted)
         FROM moved
        GROUP BY partition_key
       HAVING sum(counted) > 0
       ON CONFLICT (minute, partition_key) DO UPDATE SET failed = t.failed + EXCLUDED.failed)
SELECT partition_key, clock_timestamp() FROM held
