// Package inbox gives Go consumers of Postrider effectively-once processing in PostgreSQL.
//
// # Model
//
//	err := inbox.Migrate(ctx, pool, "public")
//	box, err := inbox.New(pool, inbox.Config{Name: "billing"})
//	consumer, err := inbox.NewConsumer(box, js, handle, inbox.ConsumerConfig{})
//	err = consumer.Run(ctx)
//
// One transaction locks the row of the message's stream, looks the message up, runs the handler and records both. An effect is there
// exactly when its record is. A handler's effects outside of that transaction are not covered. Process and ProcessBatch do it for
// messages from anywhere, Consumer for a JetStream stream, Call for requests whose senders number them.
//
// # What decides
//
// The SQL function inbox_decide, here and for consumers in other languages (docs/inbox-protocol.md).
//
// Order is promised per stream, by version: the relay publishes a stream's versions ascending (policies block=none and
// on_dead=skip excepted). Nothing else decides. Sequences of a partition may step back within a generation (parked and
// scheduled rows come later), a requeued message has a higher generation than its successors, a resize moves streams
// between partitions: all of that is normal, and what is odd about it is reported in Outcome.Findings, never refused.
//
// "last" is the highest version of the stream that was dealt with, "record" what is kept under (stream, version).
//
//	row  record           version        stream            what happens              findings
//	1    the same event   any            any               Repeat, stored result     LowerEpoch
//	2    purged           last, its id   any               Repeat, no result         LowerEpoch
//	3    none             any            holds it parked   Waiting, nothing stored   as below
//	4    another event    any            any               Dead: a conflict          Conflict
//	     purged           last           any               the same                  Conflict
//	5    none             below last     any               Outdated: refused         Reversal
//	6    none             any other      blocked           Waiting: parked           as below
//	7    none             last + 1       free              Applied                   none
//	8    none             above          free              Applied                   Gap, Missing counts
//	9    none             below last     free              with OrderIDs: Applied    Reversal
//
// In rows 5 to 9 come besides, against the stream's last message: Reversal for a lower sequence of the same generation, LowerGeneration,
// LowerEpoch for the same partition and generation. With OrderIDs, rows 6 and 9 take the place of row 5. Tests go through every row.
//
// A gap is not an error: audit-only events have versions, and operators skip and discard. A conflict means that the producer's database
// forgot published events and uses their versions again: a person decides (Skip, or Forget and Requeue).
//
// # Failures of handlers
//
// An error undoes the handler's effects. Final errors are dead at once, others are tried again after min(base·factor^(n-1), max) and are
// dead after MaxAttempts. The message is parked with its payload, and so is every later one of its stream, in version order; other streams
// go on. Parked messages need JetStream no more. A retry holds the lock of the stream, and so may run in any process. An outage of the
// database, a deadlock, a session that ends or a context that ends counts no attempt: Process returns an error, and a Consumer tries
// again. A handler fails, too, if it panics, exceeds HandlerTimeout, ends the transaction, passes over an error of the database, or leaves
// rows open. So does one whose effect a deferred constraint or trigger refuses. A message that the inbox's tables cannot hold is no
// outage: it is malformed, and dead if it was parked.
//
// A handler that ends its process costs nothing to look for: after two readers lost with a lane, without a message
// settled between them, the third begins the lane's messages one by one. Each has a committed mark in the lane's row.
// Parked messages are marked whenever they are tried. A mark that nobody came back from counts as an attempt.
//
// # Readers
//
// A Consumer's messages are spread over lanes by a hash of the stream. A lane has one reader: its row names owner and epoch. Every
// transaction begins with a compare-and-set on both and stores the position in JetStream: effect, record, position and right to the lane
// cannot come apart. A reader that was suspended past its lease changes nothing. A position below the reader's own proves that the database
// forgot it, as behind a failover: the lane is taken anew, and read from there. A row that names a reader which does not read the lane is
// let go by that reader. Each reader reads the stream once with a consumer of its own behind the least position of its lanes; nothing is
// acknowledged. Readers have equal shares of the lanes; one that comes or goes takes over at the others' next sign of life, one that dies
// after LeaseTTL.
//
// A position is a sequence with the time at which JetStream stored that message. Each pass begins with a look at both: a
// stream that lost its end has given the sequence to another message, and the lanes go back to what was stored since. They
// do so, too, where nothing is there: workers remove their records, so that an empty place proves nothing.
//
// # Invariants
//
//   - A handler's effect is committed once for each event, and each stream's effects in version order.
//   - Every message is recorded, parked, refused or stored as malformed before its position is passed.
//   - Safety rests on row locks and the lane's epoch; time only gives liveness.
//   - Locks are taken in one order: lane, then streams by name.
//   - The last event of a stream is known for ever; other records until the retention, and rows 5 and 4 keep them from
//     running again. With OrderIDs a message past the retention would run again.
package inbox
