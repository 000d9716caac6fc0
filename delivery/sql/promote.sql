-- After rows of a stream were taken out of the parking place, its first row
-- there is blocked by nothing any more. The lease rows were compared, set and
-- locked earlier in this transaction; joining them here leaves out the
-- partitions for which that failed. With $6 dead rows block nothing.
UPDATE {schema}.outbox_parked AS p
   SET blocked = false
  FROM (SELECT DISTINCT s.partition_key, s.stream_id
          FROM unnest($4::smallint[], $5::text[]) AS s (partition_key, stream_id)) AS stream
  JOIN unnest($2::smallint[], $3::bigint[]) AS mine (partition_key, epoch) USING (partition_key)
  JOIN {schema}.outbox_partitions AS l USING (partition_key)
 CROSS JOIN LATERAL (
         SELECT f.global_sequence
           FROM {schema}.outbox_parked AS f
          WHERE f.partition_key = stream.partition_key AND f.stream_id = stream.stream_id
            AND NOT ($6::boolean AND f.dead_at IS NOT NULL)
          ORDER BY f.global_sequence
          LIMIT 1) AS first
 WHERE l.lease_owner IS NOT DISTINCT FROM $1 AND l.lease_epoch = mine.epoch
   AND p.partition_key = stream.partition_key
   AND p.global_sequence = first.global_sequence
   AND p.blocked
