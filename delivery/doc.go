// Package delivery has the terms of delivery, which its rooms share: message and outcome, store and publisher.
//
// # Model
//
//	loop ── decides: claims batches, publishes them, marks them, takes partitions over
//	├── Store       package pgstore: the outbox in PostgreSQL
//	├── Publisher   package natspub: the stream in NATS JetStream
//	└── package shape: a stored event becomes a message, by transforms
//
// A Pointer is a row of the outbox, an Event the row behind it, a Message both. A Batch holds messages of one partition under
// one lease. A Publisher gives each message an Outcome; a Store marks the Result. RetryPolicy and FailurePolicy decide what
// follows a failure.
//
// A batch passes fifteen files, from its claim until its rows are gone:
//
//	loop/relay ─▶ pgstore/claim ─▶ loop/publish ─▶ pgstore/rehydrate ─▶ shape/hooks
//	  ─▶ natspub/combine, step, record ─▶ natspub/wire/build, writer, acks
//	  ─▶ loop/mailbox, state, marker ─▶ pgstore/mark
//
// # Invariants
//
//   - The rooms know each other by these terms alone: loop imports neither pgstore nor natspub, and they do not import it.
//   - Positions of a stream mean something together with the life of a partition's records alone (Known).
//
// # Failures
//
// ErrForgotten and ErrLeaseGone are a Store's. ErrOutage, ErrUnknown, ErrConfiguration and ErrFenced are a Publisher's.
package delivery
