-- Queues again, from the next batches of the history behind $6, what was published
-- before the last resize and is not in the stream any more: it lies above the
-- position in $5 up to which the stream holds what was published under the partition
-- in $4. The events go to the partitions where their streams are now, in front of what
-- waits there, and in the order in which they were published. An event that was
-- published once more later comes back as that.
WITH held AS (
       SELECT p.partition_key
         FROM {schema}.outbox_partitions AS p
        WHERE p.partition_key = $3 AND p.lease_owner IS NOT DISTINCT FROM $1 AND p.lease_epoch = $2),
     page AS MATERIALIZED (
       SELECT d.id, k.kept
         FROM {schema}.outbox_settings AS s
         JOIN {schema}.outbox_deliveries AS d ON d.published_at < s.resized_at
         JOIN unnest($4::smallint[], $5::bigint[]) AS k (partition_key, kept) USING (partition_key)
        WHERE d.id > $6 AND d.last_stream_sequence > k.kept AND (d.lost_after IS NULL OR d.lost_after > k.kept)
        ORDER BY d.id
        LIMIT $7),
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
