-- The row that leads a stream before one of its rows.
SELECT o.global_sequence, {state}
  FROM {schema}.outbox AS o
 WHERE o.partition_key = $1 AND o.stream_id = $2 AND o.global_sequence < $3
 ORDER BY o.global_sequence
 LIMIT 1
