// Package delivery carries the events of the partitions held by this worker
// from PostgreSQL to the broker: claim, rehydrate, publish, mark.
//
// # Model
//
//	outbox_ready ─claim─▶ pointers ─rehydrate─▶ messages ─publish─▶ outcomes ─mark─▶ deleted, or parked
//	                 (one query for      (one query for        (per partition,   (one statement for
//	                  all partitions)     all pointers)         many at once)     many partitions)
//
// A Relay claims batches for every held partition that has none in flight,
// within a window that bounds messages and bytes. A partition is busy from its
// claim to its mark, so that it has at most one batch under way.
//
// A row of the outbox is work not yet published. Published rows are deleted by
// key. Rows that cannot be published now are parked, out of the hot path: the
// failed ones until their next attempt, the dead ones until a person acts, the
// scheduled ones until they are due, and the rows of their streams behind them,
// marked blocked.
//
// # Invariants
//
//   - ordering stream: rows of one stream are published in the order of their
//     sequences, however many workers there are. Claims take undelivered rows,
//     never "everything above a cursor", because sequences become visible out
//     of order; within one stream writers are serial, so a snapshot that shows
//     a row shows the rows before it.
//   - A row is not published while an earlier row of its stream is parked. The
//     check stands in the claim statement itself.
//   - Between reading and publishing everything read is made durable: a row of
//     an asynchronous commit could vanish and its sequence be used again.
//   - Every write is a compare-and-set on the lease's owner and epoch, in the
//     same transaction and first in it. A worker that lost its lease changes
//     nothing, and counts what was refused.
//   - Only failures caused by a message count as attempts. While the broker or
//     the database is away, rows stay as they are.
//   - A batch holds at most Window messages and about WindowBytes bytes; what
//     does not fit is left for the next claim.
//
// # Failures
//
// The publisher gives each message one Outcome (see Kind). An outage pauses
// claiming with growing waits; while other partitions flow, only the partition
// that failed pauses. A configuration error stops the relay with an error that
// names the setting. An event whose row is unfit fails by itself.
//
// A mark that fails for several partitions together is made for each alone, and
// repeated while the lease is trusted; repeating it counts nothing twice. When
// it stays without answer, rows that are still there are claimed again and
// published under the same message id, which the broker drops within its window.
// A drain waits for what was sent: the rest of a batch is left to the heir.
//
// Another ordering or another way to publish is another claim statement and
// another Publisher: Relay knows neither sequences' order nor acknowledgements.
package delivery
