-- query: Append
-- The arguments stand in the order of the function's parameters.
SELECT sequence, event_id, stream_version, partition_key, duplicate, enqueued
  FROM {schema}.outbox_append_batch(
       @streams, @types, @payloads, @ids, @expected, @metadata, @topics, @keys, @hashes, @dedupe, @tenants, @published,
       @not_before, @occurred_at)

-- query: WithoutEnqueue
SELECT {schema}.outbox_without_enqueue()
