-- Streams with parked rows whose first row is due again: the stream's parked
-- rows from its first one on. The caller cuts each stream at the first row that
-- is not due or dead. With $4 dead rows are passed over. While nothing is parked, that
-- is all this costs: one look at an empty index.
SELECT p.partition_key, p.global_sequence, p.generation, p.attempts, p.stream_id, p.topic,
       p.blocked,
       p.dead_at IS NULL AND p.available_at <= clock_timestamp() AS due,
       NULL::tid AS place, p.scheduled_for
  FROM unnest($1::smallint[], $2::int[]) AS mine (partition_key, most)
 {flowing}
 CROSS JOIN LATERAL (
         SELECT DISTINCT h.stream_id
           FROM (SELECT i.stream_id
                   FROM {schema}.outbox_parked AS i
                  WHERE i.partition_key = mine.partition_key
                    AND NOT i.blocked AND i.dead_at IS NULL
                    AND i.available_at <= clock_timestamp()
                    -- A scheduled row behind another one leads nothing, and must not
                    -- use up the limit. (As a join this could become a scan of the
                    -- partition for each row.)
                    AND EXISTS (SELECT FROM {schema}.outbox_parked AS e
                                     WHERE e.partition_key = i.partition_key
                                       AND e.stream_id = i.stream_id
                                       AND e.global_sequence < i.global_sequence
                                       AND NOT ($4::boolean AND e.dead_at IS NOT NULL)) IS NOT TRUE
                  ORDER BY i.available_at
                  LIMIT mine.most) AS h) AS head
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM {schema}.outbox_parked AS r
          WHERE r.partition_key = mine.partition_key
            AND r.stream_id = head.stream_id
            AND NOT ($4::boolean AND r.dead_at IS NOT NULL)
          ORDER BY r.global_sequence
          LIMIT mine.most) AS p
 WHERE {anything_parked}
 LIMIT $3
