-- The next pointers behind ($1, $2), and whether their events are there.
SELECT p.partition_key, p.global_sequence, p.stream_id, e.sequence IS NOT NULL
  FROM (SELECT o.partition_key, o.global_sequence, o.stream_id
          FROM {schema}.outbox AS o
         WHERE (o.partition_key, o.global_sequence) > ($1::int, $2::bigint)
         ORDER BY o.partition_key, o.global_sequence
         LIMIT $3) AS p
  LEFT JOIN {events} AS e ON e.sequence = p.global_sequence
 ORDER BY p.partition_key, p.global_sequence
