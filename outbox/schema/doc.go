// Package schema owns the outbox's tables and SQL functions: versioned migrations, and the question whether a database has them.
//
// # Model
//
// The migrations are embedded SQL files, run by goose in ascending order, each in one transaction, and recorded in outbox_schema_version
// inside the schema. They contain the schema's quoted name and the partition count, which is fixed when the tables are created and stored
// in outbox_settings. Migrating is a command; a worker only calls Check. outbox_settings also says where the events are and, where somebody
// said so, to which stream and subjects they go, for everybody who asks: Up sets it. The first four are one file for each role of what they make:
//
//	tables     events, outbox (= outbox_ready + outbox_parked), outbox_deliveries,
//	           outbox_partitions, outbox_workers, outbox_dedupe_keys,
//	           outbox_former_partitions, outbox_watermark, outbox_throughput, outbox_settings, outbox_types
//	functions  outbox_append, outbox_append_bytes, outbox_append_one, outbox_append_one_bytes, outbox_append_batch, outbox_append_adopted, outbox_without_enqueue,
//	           outbox_partition, outbox_xxhash64, outbox_schema_problem, outbox_state
//	view       outbox_messages
//	operators  outbox_audit, outbox_ownership, outbox_replays, outbox_replay_sequences
//
// # Invariants
//
// Any number of processes may migrate one schema at once: under a session advisory lock keyed by its name one works, the others find nothing
// to do. Migrating twice equals once. It never changes the stored partition count; nor the relation with the events, stream and subjects
// while a worker lives; nor the prefix of the control subjects once one has lived. Several schemas in one database do not see each other.
//
// # Failures
//
// A failed migration is rolled back and leaves the version before it. Errors to branch on: ErrNotMigrated, ErrOutdated, ErrNewer,
// ErrPartitionMismatch, ErrStreamMismatch, ErrLiving, ErrEvents, ErrControl, ErrServerVersion, ErrUnpublished, ErrCaptured, ErrInUse; each
// text has the cure. Down removes the events too and therefore refuses while something is unpublished, unless forced. The advisory lock needs
// a session: migrate past a transaction-pooling proxy.
package schema
