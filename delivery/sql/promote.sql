-- After rows of a stream were taken out of the parking place, its first row
-- there is blocked by nothing any more. The lease rows were compared, set and
-- locked earlier in this transaction; joining them here leaves out the
-- partitions for which that failed. With $6 dead rows block nothing. The keys are
-- compared as in mark.sql.
WITH mine AS MATERIALIZED (
       SELECT s.partition_key, s.stream_id
         FROM (SELECT DISTINCT u.partition_key, u.stream_id
                 FROM unnest($4::smallint[], $5::text[]) AS u (partition_key, stream_id)) AS s
         JOIN unnest($2::smallint[], $3::bigint[]) AS held (partition_key, epoch) USING (partition_key)
         JOIN {schema}.outbox_partitions AS l USING (partition_key)
        WHERE l.lease_owner IS NOT DISTINCT FROM $1 AND l.lease_epoch = held.epoch),
     first AS MATERIALIZED (
       SELECT mine.partition_key, mine.stream_id, f.global_sequence
         FROM mine
        CROSS JOIN LATERAL (
                SELECT p.global_sequence
                  FROM {schema}.outbox_parked AS p
                 WHERE p.partition_key = mine.partition_key AND p.stream_id = mine.stream_id
                   AND NOT ($6::boolean AND p.dead_at IS NOT NULL)
                 ORDER BY p.global_sequence
                 LIMIT 1) AS f)
UPDATE {schema}.outbox_parked AS p
   SET blocked = false
  FROM first
 WHERE p.partition_key = ANY (ARRAY[first.partition_key])
   AND p.stream_id = first.stream_id
   AND p.global_sequence = first.global_sequence
   AND p.blocked
