-- query: Heal
-- Queues again what was recorded as published above @kept of the stream and is not
-- there any more, since the partitions are what they are; HealFormer does the
-- same for what is older. It takes the @most batches before @first and @id, the last ones
-- first. The lease row is compared first; its positions go back with the stream when nothing
-- is left, and are of @life from then on, so that the next owner does not see the same loss again. What
-- was published longer ago than @age is not lost: the stream lets it expire.
WITH held AS MATERIALIZED (
       SELECT p.partition_key
         FROM {schema}.outbox_partitions AS p
        WHERE p.partition_key = @partition AND p.lease_owner IS NOT DISTINCT FROM @owner AND p.lease_epoch = @epoch),
     page AS MATERIALIZED (
       SELECT d.id, d.first_sequence, d.last_sequence
         FROM {schema}.outbox_deliveries AS d
        WHERE d.partition_key = @partition AND (d.first_sequence, d.id) < (@first, @id)
          AND EXISTS (SELECT FROM held)
          AND d.id > (SELECT coalesce(s.resized_delivery, 0) FROM {schema}.outbox_settings AS s)
          AND d.published_at > coalesce(clock_timestamp() - @age::interval, '-infinity')
          AND d.last_stream_sequence > @kept
          AND (d.lost_after IS NULL OR d.lost_after > @kept)
        ORDER BY d.first_sequence DESC, d.id DESC
        LIMIT @most),
     settled AS (
       UPDATE {schema}.outbox_partitions AS p
          SET fence_sequence  = least(p.fence_sequence, @kept),
              stream_sequence = least(p.stream_sequence, @kept),
              lost_sequence   = 0,
              stream_life     = @life,
              updated_at      = clock_timestamp()
         FROM held
        WHERE p.partition_key = held.partition_key AND (SELECT count(*) FROM page) < @most),
     lost AS (
       UPDATE {schema}.outbox_deliveries AS d
          SET lost_after = @kept
         FROM page
        WHERE d.id = page.id
    RETURNING d.*),
     later AS MATERIALIZED (
       SELECT k.sequence::bigint AS sequence, max(d.id) AS id
         FROM {schema}.outbox_deliveries AS d
        CROSS JOIN LATERAL jsonb_object_keys(d.generations) AS k (sequence)
        WHERE d.generations IS NOT NULL AND d.partition_key = @partition
          AND d.id > (SELECT min(page.id) FROM page)
          AND d.first_sequence <= (SELECT max(page.last_sequence) FROM page)
          AND d.last_sequence >= (SELECT min(page.first_sequence) FROM page)
        GROUP BY 1),
     entries AS (
       SELECT DISTINCT ON (s.sequence)
              lost.partition_key, s.sequence,
              coalesce((lost.generations ->> s.sequence::text)::int, 0) AS generation
         FROM lost
        CROSS JOIN LATERAL unnest(
                coalesce(lost.sequences, ARRAY(SELECT generate_series(lost.first_sequence, lost.last_sequence))),
                lost.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
         LEFT JOIN later ON later.sequence = s.sequence
        WHERE (CASE WHEN lost.stream_sequences IS NULL THEN lost.first_stream_sequence + s.position - 1
                    ELSE s.stream_sequence END) > @kept
          AND (later.id IS NULL OR later.id <= lost.id)
        ORDER BY s.sequence, lost.id DESC),
     queued AS (
       INSERT INTO {schema}.outbox_ready (global_sequence, partition_key, generation, stream_id, topic)
       SELECT n.sequence, n.partition_key, n.generation, e.stream_id, e.topic
         FROM entries AS n
         JOIN {events} AS e ON e.sequence = n.sequence
        WHERE NOT EXISTS (SELECT FROM {schema}.outbox AS o
                           WHERE o.partition_key = n.partition_key AND o.global_sequence = n.sequence)
    RETURNING global_sequence),
     deepest AS (
       SELECT page.first_sequence, page.id FROM page WHERE (SELECT count(*) FROM page) = @most ORDER BY 1, 2 LIMIT 1)
SELECT (SELECT count(*) FROM held), (SELECT count(*) FROM entries), (SELECT count(*) FROM queued),
       (SELECT first_sequence FROM deepest), (SELECT id FROM deepest)

-- query: Concede
-- A loss that is only reported: of the records of the stream as it is none is known to be marked, and what it had held stays known.
UPDATE {schema}.outbox_partitions
   SET fence_sequence  = 0,
       stream_sequence = 0,
       lost_sequence   = greatest(lost_sequence, @known),
       stream_life     = @life,
       updated_at      = clock_timestamp()
 WHERE partition_key = @partition AND lease_owner IS NOT DISTINCT FROM @owner AND lease_epoch = @epoch

-- query: HealOwn
-- Comes before Heal in its transaction, as whoever queues events holds this lock: Heal would not see rows that
-- came while it waited for it.
SELECT FROM {schema}.outbox_partitions WHERE partition_key = @partition FOR NO KEY UPDATE

-- query: HealFormer
-- Queues again, from the next batches of the history behind @after, what was published
-- before the last resize and is not in the stream any more: it lies above the
-- position in @kept up to which the stream holds what was published under the partition
-- in @partitions. The events go to the partitions where their streams are now, in front of what
-- waits there, and in the order in which they were published. An event that was
-- published once more later comes back as that. @age is as for Heal.
WITH held AS (
       SELECT p.partition_key
         FROM {schema}.outbox_partitions AS p
        WHERE p.partition_key = @partition AND p.lease_owner IS NOT DISTINCT FROM @owner AND p.lease_epoch = @epoch),
     page AS MATERIALIZED (
       SELECT d.id, k.kept
         FROM {schema}.outbox_settings AS s
         JOIN {schema}.outbox_deliveries AS d ON d.id <= s.resized_delivery
         JOIN unnest(@partitions::smallint[], @kept::bigint[]) AS k (partition_key, kept) USING (partition_key)
        WHERE d.id > @after AND d.last_stream_sequence > k.kept
          AND d.published_at > coalesce(clock_timestamp() - @age::interval, '-infinity') AND (d.lost_after IS NULL OR d.lost_after > k.kept)
        ORDER BY d.id
        LIMIT @most),
     lost AS (
       UPDATE {schema}.outbox_deliveries AS d
          SET lost_after = page.kept
         FROM page, held
        WHERE d.id = page.id
    RETURNING d.*),
     later AS MATERIALIZED (
       SELECT k.sequence::bigint AS sequence, max(d.id) AS id
         FROM {schema}.outbox_deliveries AS d
        CROSS JOIN LATERAL jsonb_object_keys(d.generations) AS k (sequence)
        WHERE d.generations IS NOT NULL AND d.id > (SELECT min(page.id) FROM page)
        GROUP BY 1),
     entries AS (
       SELECT DISTINCT ON (s.sequence)
              s.sequence, coalesce((lost.generations ->> s.sequence::text)::int, 0) AS generation
         FROM lost
        CROSS JOIN LATERAL unnest(
                coalesce(lost.sequences, ARRAY(SELECT generate_series(lost.first_sequence, lost.last_sequence))),
                lost.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
         LEFT JOIN later ON later.sequence = s.sequence
        WHERE (CASE WHEN lost.stream_sequences IS NULL THEN lost.first_stream_sequence + s.position - 1
                    ELSE s.stream_sequence END) > lost.lost_after
          AND (later.id IS NULL OR later.id <= lost.id)
        ORDER BY s.sequence, lost.id DESC),
     placed AS (
       SELECT n.sequence, n.generation, e.stream_id, e.topic,
              {schema}.outbox_hash_partition(
                {schema}.outbox_xxhash64(convert_to(coalesce({routing_key}, e.stream_id), 'UTF8')), s.partition_count) AS partition_key
         FROM entries AS n
         JOIN {events} AS e ON e.sequence = n.sequence
        CROSS JOIN {schema}.outbox_settings AS s),
     queued AS (
       INSERT INTO {schema}.outbox (global_sequence, partition_key, generation, parked, blocked, stream_id, topic)
       SELECT n.sequence, n.partition_key, n.generation, true,
              row_number() OVER (PARTITION BY n.partition_key, n.stream_id ORDER BY n.sequence) > 1
              OR EXISTS (SELECT FROM {schema}.outbox AS p
                          WHERE p.parked AND p.partition_key = n.partition_key AND p.stream_id = n.stream_id
                            AND p.global_sequence < n.sequence),
              n.stream_id, n.topic
         FROM placed AS n
        WHERE NOT EXISTS (SELECT FROM {schema}.outbox AS o
                           WHERE o.partition_key = n.partition_key AND o.global_sequence = n.sequence)
    RETURNING global_sequence)
SELECT (SELECT count(*) FROM held), (SELECT count(*) FROM entries), (SELECT count(*) FROM queued), (SELECT max(id) FROM page)

-- query: HealKnown
-- The partitions that are no more and that @partition answers for, and what the stream was
-- known to hold of them.
SELECT f.partition_key, f.fence_sequence
  FROM {schema}.outbox_former_partitions AS f
 CROSS JOIN {schema}.outbox_settings AS s
 WHERE f.partition_key % s.partition_count = @partition::int
 ORDER BY f.partition_key

-- query: HealKeys
-- Every partition that ever was, if their number ever changed.
SELECT k.partition_key
  FROM {schema}.outbox_settings AS s
 CROSS JOIN (SELECT partition_key FROM {schema}.outbox_partitions
              UNION
             SELECT partition_key FROM {schema}.outbox_former_partitions) AS k
 WHERE s.resized_at IS NOT NULL
 ORDER BY k.partition_key

-- query: HealTable
-- The number of partitions stays while rows are queued.
LOCK TABLE {schema}.outbox IN ROW EXCLUSIVE MODE

-- query: HealLock
-- In the order of marks, so that neither waits for the other in a circle.
SELECT FROM {schema}.outbox_partitions ORDER BY partition_key FOR NO KEY UPDATE

-- query: HealSettle
-- What was healed of partitions that are no more is no loss to the next who looks.
UPDATE {schema}.outbox_former_partitions AS f
   SET fence_sequence  = least(f.fence_sequence, k.kept),
       stream_sequence = least(f.stream_sequence, k.kept)
  FROM unnest(@partitions::smallint[], @kept::bigint[]) AS k (partition_key, kept)
 WHERE f.partition_key = k.partition_key
   AND EXISTS (SELECT FROM {schema}.outbox_partitions AS p
                WHERE p.partition_key = @partition AND p.lease_owner IS NOT DISTINCT FROM @owner AND p.lease_epoch = @epoch)
