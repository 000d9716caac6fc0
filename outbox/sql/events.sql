-- query: Append
-- The arguments stand in the order of the function's parameters, each with its type: a stranger's function of the name is another.
SELECT sequence, event_id, stream_version, partition_key, duplicate, enqueued
  FROM {schema}.outbox_append_batch(
       @streams::text[], @types::text[], @payloads::bytea[], @ids::uuid[], @expected::bigint[], @metadata::jsonb[], @topics::text[],
       @keys::text[], @hashes::bigint[], @dedupe::text[], @tenants::text[], @published::boolean[], @not_before::timestamptz[],
       @occurred_at::timestamptz[])

-- query: WithoutEnqueue
SELECT {schema}.outbox_without_enqueue()
