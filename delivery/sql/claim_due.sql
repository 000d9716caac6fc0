-- Parked rows that are due, each for itself: the claim of a relay that lets
-- later rows pass failed ones.
SELECT p.partition_key, p.global_sequence, p.generation, p.attempts, p.stream_id, p.topic,
       p.blocked,
       true AS due,
       NULL::tid AS place, p.scheduled_for
  FROM unnest($1::smallint[], $2::int[]) AS mine (partition_key, most)
 {flowing}
 CROSS JOIN LATERAL (
         SELECT r.*
           FROM {schema}.outbox_parked AS r
          WHERE r.partition_key = mine.partition_key
            AND NOT r.blocked AND r.dead_at IS NULL
            AND r.available_at <= clock_timestamp()
          ORDER BY r.available_at
          LIMIT mine.most) AS p
 LIMIT $3
