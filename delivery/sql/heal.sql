-- Queues again what was recorded as published above $4 of the stream and is not
-- there any more, since the partitions are what they are; heal_former.sql does the
-- same for what is older. The lease row is compared first; the positions go back with
-- the stream, so that the next owner does not see the same loss again.
WITH held AS (
       UPDATE {schema}.outbox_partitions AS p
          SET fence_sequence  = least(p.fence_sequence, $4),
              stream_sequence = least(p.stream_sequence, $4),
              updated_at      = clock_timestamp()
        WHERE p.partition_key = $3 AND p.lease_owner IS NOT DISTINCT FROM $1 AND p.lease_epoch = $2
    RETURNING p.partition_key),
     lost AS (
       UPDATE {schema}.outbox_deliveries AS d
          SET lost_after = $4
         FROM held, {schema}.outbox_settings AS s
        WHERE d.partition_key = held.partition_key
          AND (s.resized_at IS NULL OR d.published_at >= s.resized_at)
          AND d.last_stream_sequence > $4
          AND (d.lost_after IS NULL OR d.lost_after > $4)
    RETURNING d.*),
     entries AS (
       SELECT DISTINCT ON (s.sequence)
              lost.partition_key, s.sequence,
              coalesce((lost.generations ->> s.sequence::text)::int, 0) AS generation
         FROM lost
        CROSS JOIN LATERAL unnest(
                coalesce(lost.sequences, ARRAY(SELECT generate_series(lost.first_sequence, lost.last_sequence))),
                lost.stream_sequences) WITH ORDINALITY AS s (sequence, stream_sequence, position)
        WHERE (CASE WHEN lost.stream_sequences IS NULL THEN lost.first_stream_sequence + s.position - 1
                    ELSE s.stream_sequence END) > $4
        ORDER BY s.sequence, lost.id DESC),
     queued AS (
       INSERT INTO {schema}.outbox_ready (global_sequence, partition_key, generation, stream_id, topic)
       SELECT n.sequence, n.partition_key, n.generation, e.stream_id, e.topic
         FROM entries AS n
         JOIN {events} AS e ON e.sequence = n.sequence
        WHERE NOT EXISTS (SELECT FROM {schema}.outbox AS o
                           WHERE o.partition_key = n.partition_key AND o.global_sequence = n.sequence)
    RETURNING global_sequence)
SELECT (SELECT count(*) FROM held), (SELECT count(*) FROM entries), (SELECT count(*) FROM queued)
