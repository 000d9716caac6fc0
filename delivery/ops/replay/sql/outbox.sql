-- query: ReadyBelow
SELECT EXISTS (SELECT FROM {schema}.outbox AS o WHERE NOT o.parked AND o.partition_key = ANY (@partitions::smallint[]) AND o.global_sequence <= @last)

-- query: Backlog
-- How many rows workers could publish now, of new ones and of replayed ones, each
-- up to @most. What waits behind a failed or dead row is not theirs to publish.
SELECT (SELECT count(*) FROM (SELECT FROM {schema}.outbox AS o WHERE NOT o.parked LIMIT @most) AS ready)
     + (SELECT count(*)
          FROM (SELECT FROM {schema}.outbox AS o
                 WHERE o.parked AND o.replay_id IS NOT NULL AND o.dead_at IS NULL AND o.attempts = 0
                   AND NOT (o.blocked
                            AND EXISTS (SELECT FROM {schema}.outbox AS e
                                         WHERE e.parked AND e.partition_key = o.partition_key AND e.stream_id = o.stream_id
                                           AND e.global_sequence < o.global_sequence
                                           AND (e.dead_at IS NOT NULL OR e.attempts > 0)))
                 LIMIT @most) AS replayed)

-- query: Occupied
-- Which of the sequences are in the outbox, and why they are still there.
SELECT o.global_sequence,
       CASE WHEN o.dead_at IS NOT NULL THEN 'dead' WHEN o.blocked THEN 'blocked' WHEN o.attempts > 0 THEN 'failed' ELSE 'pending' END
  FROM unnest(@partitions::smallint[], @sequences::bigint[]) AS s (partition_key, sequence)
  JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
 ORDER BY o.global_sequence
 LIMIT 1

-- query: Enqueue
-- Pointer rows of generation @generation, where the relay looks for rows that come out of
-- turn. The first row of a stream leads it, any other waits behind that. Nothing
-- is inserted when the number of partitions is not @count any more.
INSERT INTO {schema}.outbox (global_sequence, partition_key, generation, replay_id, parked, blocked, stream_id, topic)
SELECT n.sequence, n.partition_key, @generation, @id, true,
       row_number() OVER (PARTITION BY n.partition_key, n.stream_id ORDER BY n.sequence) > 1
       OR EXISTS (SELECT FROM {schema}.outbox AS p
                   WHERE p.parked AND p.partition_key = n.partition_key AND p.stream_id = n.stream_id
                     AND p.global_sequence < n.sequence),
       n.stream_id, n.topic
  FROM unnest(@partitions::smallint[], @sequences::bigint[], @streams::text[], @topics::text[]) AS n (partition_key, sequence, stream_id, topic)
 CROSS JOIN {schema}.outbox_settings AS s
 WHERE s.partition_count = @count

-- query: Chosen
-- The next rows that were chosen for retry @id behind @after, at most @limit, and where
-- they lie; those that are not dead or failed any more without a place.
SELECT x.sequence, o.partition_key
  FROM (SELECT c.sequence FROM {schema}.outbox_replay_sequences AS c
         WHERE c.replay_id = @id AND c.sequence > @after
         ORDER BY c.sequence
         LIMIT @limit) AS x
  LEFT JOIN {schema}.outbox AS o
         ON o.partition_key = ANY (@partitions::smallint[]) AND o.global_sequence = x.sequence AND o.parked
        AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
 ORDER BY x.sequence

-- query: Retry
-- Dead and failed rows begin anew where they are; the answer is what they were.
WITH chosen AS (
       SELECT o.partition_key, o.global_sequence, o.stream_id, o.attempts, o.generation, coalesce(o.last_error, '') AS last_error
         FROM unnest(@partitions::smallint[], @sequences::bigint[]) AS s (partition_key, sequence)
         JOIN {schema}.outbox AS o ON o.partition_key = s.partition_key AND o.global_sequence = s.sequence
        WHERE o.parked AND (o.dead_at IS NOT NULL OR NOT o.blocked AND o.attempts > 0)
          FOR UPDATE OF o),
     changed AS (
       UPDATE {schema}.outbox AS o
          SET attempts     = 0,
              generation   = o.generation + 1,
              dead_at      = NULL,
              last_error   = NULL,
              available_at = clock_timestamp(),
              blocked      = EXISTS (SELECT FROM {schema}.outbox AS f
                                      WHERE f.parked
                                        AND f.partition_key = o.partition_key
                                        AND f.stream_id = o.stream_id
                                        AND f.global_sequence < o.global_sequence)
         FROM chosen
        WHERE o.parked AND o.partition_key = chosen.partition_key AND o.global_sequence = chosen.global_sequence)
SELECT partition_key, global_sequence, stream_id, attempts, generation, last_error
  FROM chosen
 ORDER BY partition_key, global_sequence
