-- The last batches of a partition, by sequence.
SELECT d.id, d.lease_epoch, d.first_sequence, d.last_sequence, d.first_stream_sequence, d.last_stream_sequence,
       d.published_at, d.message_count, coalesce(cardinality(d.skipped), 0)
  FROM {schema}.outbox_deliveries AS d
 WHERE d.partition_key = $1
 ORDER BY d.first_sequence DESC
 LIMIT $2
