// Package loop brings the events of the partitions held by this worker
// from PostgreSQL to the broker: claim, rehydrate, publish, mark.
//
// # Model
//
//	 take ─▶ outbox_ready ─claim─▶ pointers ─rehydrate─▶ messages ─publish─▶ outcomes ─mark─▶ deleted, or parked
//	(once a lease)       (one query for      (one query for        (per partition,   (one statement for
//	                      all partitions)     all pointers)         many at once)     many partitions)
//
// A Relay takes every partition that is new to it, and claims batches for every
// held partition that has none in flight, within a window that bounds messages
// and bytes. One goroutine, the loop, owns all state; others work for it, and have it
// do the rest: each posts a report, which the loop applies (mailbox.go). All that a relay knows of a partition is its
// partitionState (state.go), which stands in one of five states:
//
//	fresh      ─▶ taking             under a new lease, or when what is known may be wrong
//	taking     ─▶ ready, fresh       a takeover that fails is begun again
//	ready      ─▶ publishing, fresh
//	publishing ─▶ ready, marking, fresh   from claim to answer: at most one batch is under way
//	marking    ─▶ ready, fresh       from answer to mark, where that decides what may be claimed
//
// When the outbox is looked at is decided in one place, a pure function (schedule.go). A
// look asks for the partitions that rings named, and once in a PollInterval for every one: a
// ring saves time, and nothing rests on it. Where a poll finds what nobody rang for, the
// next ones come sooner.
//
// A row of the outbox is work not yet published. Published rows are deleted by
// key. Rows that cannot be published now are parked, out of the hot path: the
// failed ones until their next attempt, the dead ones until a person acts, the
// scheduled ones until they are due, and the rows of their streams behind them,
// marked blocked.
//
// # Order
//
// Sequences become visible out of order. With ordering partition nothing is
// claimed above the watermark (package pgstore): the position up to which every
// sequence is visible or will never be, proven by what is visible or by the locks of
// the transactions that could still write. It rests on what CheckStrict checks. Since nothing
// appears below it, a partition's progress is a cursor, kept in memory for as long
// as the lease; a sweep looks below it now and then.
//
// With ordering stream there is no watermark and no cursor: claims take undelivered
// rows. Within one stream writers are serial, so a snapshot that shows a row shows
// the rows before it.
//
// # Invariants
//
//   - Rows of one stream are published in the order of their sequences, however
//     many workers there are; with ordering partition those of a partition are, but
//     for rows that were parked. A FailurePolicy may let rows pass failed ones.
//   - A row is not published while an earlier row of its stream is parked. The
//     check stands in the claim statement itself.
//   - What is queued is durable before it is visible (ADR 7, CheckStrict), so a row that
//     was read may be published at once: none vanishes with its sequence used again.
//   - Every write is a compare-and-set on the lease's owner and epoch, in the
//     same transaction and first in it. A worker that lost its lease changes
//     nothing, and counts what was refused.
//   - Before the first claim of a lease, and after any outcome that stays unknown,
//     the partition is taken: the publisher makes sure that nothing sent before can
//     still be stored, and what the stream holds already is marked: all that records name
//     behind the last one that the database knows. So nothing is published twice where
//     the publisher can tell (see natspub).
//   - A mark may be late (ADR 27): with ordering partition the next rows are published
//     before it, unless something failed or came from the parking place, for that decides
//     what may be claimed. Marks of a partition are made in order.
//   - A mark is asynchronous. A takeover gives the partition's row a random number, and each mark adds one (see Taken). Claims and marks
//     are made where the row has the number that its owner left, and on the server on which it was taken. What a crash or a failover has
//     forgotten shows by that, as does another takeover: the partition is taken anew.
//   - An event is known by its UUID. A sequence that the stream names and the
//     database gives to another event means that the database has forgotten
//     commits; then the generation of all messages to come rises.
//   - Only failures caused by a message count as attempts. While the broker or
//     the database is away, rows stay as they are.
//   - A batch holds at most Window messages and about WindowBytes bytes; what
//     does not fit is left for the next claim.
//   - A message depends on nothing but the settings and what is stored of its event,
//     hooks (Config.Transforms) included: published again, it is the same message.
//
// # Failures
//
// The publisher gives each message one Outcome (see Kind). An outage pauses
// claiming with growing waits; while other partitions flow, only the partition
// that failed pauses. A configuration error stops the relay with an error that
// names the setting. An event whose row is unfit fails by itself. A message that ends
// its workers pauses its partition, until a person resumes it (CrashesToPause).
//
// A mark that fails for several partitions together is made for each alone, and
// repeated while the lease is trusted; repeating it counts nothing twice. A drain
// waits for what was sent: the rest of a batch is left to the heir.
//
// Messages that the stream acknowledged and lost are noticed by a new owner, and by
// an idle one within ExtentInterval. Each such loss begins a new life of the partition's records, whose id stands in each record and,
// once that is healed, in the partition's row: a failover that forgets the healing shows by it. They are queued again from the history: what is older
// than the last resize by whoever notices, parked where its streams are now and in the
// order in which it was published; the rest by each partition's owner.
package loop
