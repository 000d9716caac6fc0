-- Pointer rows for the events, as far as they have none by now, in front of what
-- waits in their streams. Nothing is inserted when the number of partitions is not
-- $4 any more.
INSERT INTO {schema}.outbox (global_sequence, partition_key, generation, parked, blocked, stream_id, topic)
SELECT e.sequence, n.partition_key, n.generation, true,
       row_number() OVER (PARTITION BY n.partition_key, e.stream_id ORDER BY e.sequence) > 1
       OR EXISTS (SELECT FROM {schema}.outbox AS p
                   WHERE p.parked AND p.partition_key = n.partition_key AND p.stream_id = e.stream_id
                     AND p.global_sequence < e.sequence),
       e.stream_id, coalesce({topic}, 'default')
  FROM unnest($1::smallint[], $2::bigint[], $3::int[]) AS n (partition_key, sequence, generation)
  JOIN {events} AS e ON e.sequence = n.sequence
 CROSS JOIN {schema}.outbox_settings AS s
 WHERE s.partition_count = $4
RETURNING global_sequence
