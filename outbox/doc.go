// Package outbox is the producer's API: it appends events, and the pointer rows
// that make them be published, inside the caller's transaction.
//
// # Model
//
// An event belongs to a stream and gets the stream's next version. It is stored in the table events; unless it is audit-only, a pointer row
// queues it for publication, in the partition that its routing key hashes to. Both rows are part of the caller's transaction: rolled back
// they were never queued, and committed the event is published at least once and in order.
//
//	appended, err := producer.AppendTx(ctx, tx, outbox.Event{
//		StreamID: "order-17", Type: "order.paid", Payload: body,
//	})
//
// AppendSQL does the same for database/sql, and so for GORM, ent, Bun and sqlc (examples/orms). Package outboxtest helps your tests.
//
// All events of one call travel in one round trip and one statement. Programs in other languages call the SQL functions outbox_append and
// outbox_append_bytes, which do the same; the tables come from package outbox/schema. Payloads of a type that is checked
// (`postrider types`) must fit its JSON Schema, whoever appends them.
//
// # Invariants
//
// The INSERT that writes an event draws its sequence, and writers to one stream queue behind each other. So a stream's sequences ascend
// with its versions, and a higher one is never visible before a lower one. The published body is Event.Payload, byte for byte. Events of
// one call get ascending sequences in the order of the arguments.
//
// # Failures
//
// Events are checked before anything is sent: ErrInvalidEvent and ErrPayloadTooLarge leave the transaction usable then, and nothing of the call
// is written. Where the database says so, as with a lower max_payload_bytes, errors.As finds its answer, and the transaction has ended. Any
// error of the database, ErrVersionConflict among them, ends the transaction: roll back, read the stream again, decide anew. A dedupe key that
// is taken is no error: Appended.Duplicate is set, and the first event returned.
//
// An expected version is decided under READ COMMITTED, PostgreSQL's default. Under a stricter isolation a conflict shows as
// ErrVersionConflict or as SQLSTATE 40001, which any append there has when the outbox was resized since the transaction began. Streams are locked until the transaction ends; a transaction that appends to several streams in
// several calls should do so in the order of their ids, byte by byte, which is the order within a call. The locks live in shared memory,
// some 6000 of them with PostgreSQL's defaults: a transaction that touches more streams than that gives expected versions, in calls of more
// than 64 events, which need no lock; else it fails with SQLSTATE 53200.
//
// Decisions: ADR 1 (pointer rows and their key), ADR 2 (payloads).
package outbox
