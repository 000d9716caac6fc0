-- A page of the sequences that were settled without a message. They are few, and
-- no index knows them.
SELECT DISTINCT s.sequence
  FROM {schema}.outbox_deliveries AS d
 CROSS JOIN LATERAL unnest(d.skipped) AS s (sequence)
 WHERE d.skipped IS NOT NULL
   AND s.sequence {after} $1
   AND ($3::smallint[] IS NULL OR d.partition_key = ANY ($3))
 ORDER BY s.sequence {order}
 LIMIT $2
