-- What lies in the parking place of the streams, replayed rows left out.
SELECT p.partition_key, p.stream_id, p.global_sequence, p.generation, p.dead_at IS NOT NULL
  FROM unnest($1::smallint[], $2::text[]) AS s (partition_key, stream_id)
  JOIN {schema}.outbox_parked AS p ON p.partition_key = s.partition_key AND p.stream_id = s.stream_id
 WHERE p.replay_id IS NULL
