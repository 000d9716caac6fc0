-- query: Park
-- Takes rows that cannot be published now out of the hot path. A failed row
-- waits for its next attempt, a dead one for a person, a blocked one for the
-- rows before it in its stream. The last ten failures stay with the row.
WITH locked AS (
       SELECT f.partition_key, mine.epoch
         FROM unnest(@partitions::smallint[], @epochs::bigint[]) AS mine (partition_key, epoch)
         JOIN {schema}.outbox_partitions AS f USING (partition_key)
        WHERE f.lease_owner IS NOT DISTINCT FROM @owner AND f.lease_epoch = mine.epoch
        ORDER BY f.partition_key
          FOR NO KEY UPDATE OF f),
     held AS (
       UPDATE {schema}.outbox_partitions AS p
          SET updated_at = clock_timestamp()
         FROM locked
        WHERE p.partition_key = locked.partition_key
          AND p.lease_owner IS NOT DISTINCT FROM @owner AND p.lease_epoch = locked.epoch
    RETURNING p.partition_key),
     failed AS MATERIALIZED (
       SELECT held.partition_key, d.sequence, d.stream_id, d.attempts, d.counted, d.delay, d.dead, d.blocked, d.reason, d.class
         FROM unnest(@row_partitions::smallint[], @sequences::bigint[], @stream_ids::text[], @attempts::int[], @counted::int[], @delays::interval[], @dead::boolean[], @blocked::boolean[], @reasons::text[], @classes::text[])
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
                                       || jsonb_build_object('at', clock_timestamp(), 'worker_id', @owner::uuid, 'class', failed.class, 'text', failed.reason)
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
SELECT partition_key FROM held

-- query: Promote
-- After rows of a stream were taken out of the parking place, its first row
-- there is blocked by nothing any more. The lease rows were compared, set and
-- locked earlier in this transaction; joining them here leaves out the
-- partitions for which that failed. With @skip_dead dead rows block nothing. The keys are
-- compared as in a mark.
WITH mine AS MATERIALIZED (
       SELECT s.partition_key, s.stream_id
         FROM (SELECT DISTINCT u.partition_key, u.stream_id
                 FROM unnest(@stream_partitions::smallint[], @stream_ids::text[]) AS u (partition_key, stream_id)) AS s
         JOIN unnest(@partitions::smallint[], @epochs::bigint[]) AS held (partition_key, epoch) USING (partition_key)
         JOIN {schema}.outbox_partitions AS l USING (partition_key)
        WHERE l.lease_owner IS NOT DISTINCT FROM @owner AND l.lease_epoch = held.epoch),
     first AS MATERIALIZED (
       SELECT mine.partition_key, mine.stream_id, f.global_sequence
         FROM mine
        CROSS JOIN LATERAL (
                SELECT p.global_sequence
                  FROM {schema}.outbox_parked AS p
                 WHERE p.partition_key = mine.partition_key AND p.stream_id = mine.stream_id
                   AND NOT (@skip_dead::boolean AND p.dead_at IS NOT NULL)
                 ORDER BY p.global_sequence
                 LIMIT 1) AS f)
UPDATE {schema}.outbox_parked AS p
   SET blocked = false
  FROM first
 WHERE p.partition_key = ANY (ARRAY[first.partition_key])
   AND p.stream_id = first.stream_id
   AND p.global_sequence = first.global_sequence
   AND p.blocked

-- query: Waiting
-- The first parked row of each of the streams that holds up what follows.
SELECT p.partition_key, p.stream_id, min(p.global_sequence)
  FROM unnest(@partitions::smallint[], @stream_ids::text[]) AS s (partition_key, stream_id)
  JOIN {schema}.outbox_parked AS p ON p.partition_key = s.partition_key AND p.stream_id = s.stream_id
 WHERE p.replay_id IS NULL
   AND CASE WHEN p.dead_at IS NOT NULL THEN NOT @skip_dead::boolean ELSE p.blocked OR p.available_at > clock_timestamp() AND NOT
            -- include: early
       END
 GROUP BY p.partition_key, p.stream_id
