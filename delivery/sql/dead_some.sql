-- Some of the dead messages, $1 at most.
SELECT global_sequence FROM {schema}.outbox_parked WHERE dead_at IS NOT NULL LIMIT $1
