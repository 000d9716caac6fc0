-- Pointer rows of generation $5, where the relay looks for rows that come out of
-- turn. The first row of a stream leads it, any other waits behind that. Nothing
-- is inserted when the number of partitions is not $6 any more.
INSERT INTO {schema}.outbox (global_sequence, partition_key, generation, replay_id, parked, blocked, stream_id, topic)
SELECT n.sequence, n.partition_key, $5, $7, true,
       row_number() OVER (PARTITION BY n.partition_key, n.stream_id ORDER BY n.sequence) > 1
       OR EXISTS (SELECT FROM {schema}.outbox AS p
                   WHERE p.parked AND p.partition_key = n.partition_key AND p.stream_id = n.stream_id
                     AND p.global_sequence < n.sequence),
       n.stream_id, n.topic
  FROM unnest($1::smallint[], $2::bigint[], $3::text[], $4::text[]) AS n (partition_key, sequence, stream_id, topic)
 CROSS JOIN {schema}.outbox_settings AS s
 WHERE s.partition_count = $6
