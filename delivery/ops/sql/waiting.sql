-- How many of these rows wait behind an earlier dead one of their stream.
SELECT count(*)
  FROM unnest($1::smallint[], $2::bigint[], $3::text[]) AS s (partition_key, sequence, stream_id)
 WHERE EXISTS (SELECT FROM {schema}.outbox AS d
                WHERE d.parked
                  AND d.partition_key = s.partition_key
                  AND d.stream_id = s.stream_id
                  AND d.global_sequence < s.sequence
                  AND d.dead_at IS NOT NULL)
