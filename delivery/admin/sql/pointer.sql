-- The row of one message in the outbox.
SELECT o.partition_key, o.stream_id, o.topic, {state}, o.attempts, o.generation,
       CASE WHEN isfinite(o.available_at) THEN o.available_at END, o.dead_at, coalesce(o.last_error, '')
  FROM {schema}.outbox AS o
 WHERE o.partition_key = ANY ($1::smallint[]) AND o.global_sequence = $2
