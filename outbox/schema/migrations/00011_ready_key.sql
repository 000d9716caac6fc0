-- The key of outbox_ready without parked: that column only says which part of the
-- outbox a row is in, and made every entry of the index 8 bytes longer, which each
-- insert writes to the log as well. No part held a sequence twice, and none can now.
--
-- outbox_parked is taken out and put back, so that it keeps its indexes as they
-- are: PostgreSQL takes a table that a vacuum found empty for empty, all its indexes
-- for equally cheap, and of those the one that was made last. For the parked rows
-- of a stream that must stay outbox_parked_stream_idx.
--
-- The outbox is locked meanwhile, about a second for a million rows.

-- +goose Up
ALTER TABLE {schema}.outbox DETACH PARTITION {schema}.outbox_parked;
ALTER TABLE {schema}.outbox DROP CONSTRAINT outbox_pkey;
ALTER TABLE {schema}.outbox_ready ADD CONSTRAINT outbox_ready_pkey PRIMARY KEY (partition_key, global_sequence);
ALTER TABLE {schema}.outbox ATTACH PARTITION {schema}.outbox_parked FOR VALUES IN (true);

-- +goose Down
ALTER TABLE {schema}.outbox_ready DROP CONSTRAINT outbox_ready_pkey;
ALTER TABLE {schema}.outbox ADD CONSTRAINT outbox_pkey PRIMARY KEY (partition_key, global_sequence, parked);
