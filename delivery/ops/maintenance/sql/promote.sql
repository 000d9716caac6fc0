-- The first parked row of each stream is blocked by nothing any more.
UPDATE {schema}.outbox AS p
   SET blocked = false
  FROM (SELECT DISTINCT s.partition_key, s.stream_id
          FROM unnest($1::smallint[], $2::text[]) AS s (partition_key, stream_id)) AS stream
 CROSS JOIN LATERAL (
         SELECT f.global_sequence
           FROM {schema}.outbox AS f
          WHERE f.parked AND f.partition_key = stream.partition_key AND f.stream_id = stream.stream_id
          ORDER BY f.global_sequence
          LIMIT 1) AS first
 WHERE p.parked AND p.blocked
   AND p.partition_key = stream.partition_key
   AND p.global_sequence = first.global_sequence
