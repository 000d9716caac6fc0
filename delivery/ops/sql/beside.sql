-- The rows of a stream in one partition before and behind one of them: of the
-- parked ones the first before it and $4 behind it, of those that can be published
-- the named ones, or without names those among the next $6 rows on either side.
SELECT o.global_sequence, {state}
  FROM ((SELECT p.* FROM {schema}.outbox AS p
          WHERE p.parked AND p.partition_key = $1 AND p.stream_id = $2 AND p.global_sequence < $3
          ORDER BY p.global_sequence
          LIMIT 1)
         UNION ALL
        (SELECT p.* FROM {schema}.outbox AS p
          WHERE p.parked AND p.partition_key = $1 AND p.stream_id = $2 AND p.global_sequence > $3
          ORDER BY p.global_sequence
          LIMIT $4)
         UNION ALL
        (SELECT r.*
           FROM unnest($5::bigint[]) AS w (sequence)
          CROSS JOIN LATERAL (
                  SELECT n.*
                    FROM {schema}.outbox AS n
                   WHERE NOT n.parked AND n.partition_key = $1 AND n.global_sequence = w.sequence
                   LIMIT 1) AS r
          WHERE r.global_sequence <> $3 AND r.stream_id = $2)
         UNION ALL
        (SELECT r.*
           FROM (SELECT n.* FROM {schema}.outbox AS n
                  WHERE NOT n.parked AND n.partition_key = $1 AND n.global_sequence < $3
                  ORDER BY n.global_sequence DESC
                  LIMIT $6) AS r
          WHERE $5::bigint[] IS NULL AND r.stream_id = $2)
         UNION ALL
        (SELECT r.*
           FROM (SELECT n.* FROM {schema}.outbox AS n
                  WHERE NOT n.parked AND n.partition_key = $1 AND n.global_sequence > $3
                  ORDER BY n.global_sequence
                  LIMIT $6) AS r
          WHERE $5 IS NULL AND r.stream_id = $2)) AS o
 ORDER BY o.global_sequence
