SELECT sequence, event_id, stream_version, partition_key, duplicate, enqueued
  FROM {schema}.outbox_append_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
