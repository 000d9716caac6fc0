// Package ops shows single messages of the outbox and mends those that wait for a person: it requeues, skips and discards dead messages,
// and pauses partitions. The command line and the monitor are built on it.
//
// # Model
//
// A dead row lies in the parked part of the outbox with dead_at set. The later rows of its stream lie there, too, marked blocked, or come
// there when they are claimed. An operator ends the wait:
//
//	requeue  the row stays where it is, without dead_at, with no attempts, due at
//	         once and of the next generation, so that no window for duplicates
//	         swallows it; workers drain its stream from there in order
//	skip     the row goes, the history records it as skipped
//	discard  the same, and the history says that it was discarded
//
// A row that waits for its time can be given up or get another one:
//
//	cancel   as discard
//	move     the row gets another time, and stays where it is
//
// In every case the first row that is left in the stream's parked part is blocked by nothing any more. A failed row can be requeued, too:
// it is tried now instead of later.
//
// Looking never asks the view outbox_messages, which unnests the whole history for one page of it: rows in the outbox are read in key
// order from every partition, settled ones by way of events and batches that can hold them. It finds the view's rows.
//
// A page is a search over several sources, each in the order of sequences: the rows of every partition, those to publish and the parked
// ones apart, and the events. The source that lags is read on in steps until the page is full as far as all were read, or Page.Within is
// over. Hits beyond the lagging source are left to the next page. A stream's messages are named by its events, which have an index for
// that. Selections read the failed and dead rows in the same way, and so do the causes of death: messages of one topic and type whose
// last errors differ in numbers, ids and quoted text alone.
//
// # Invariants
//
//   - Every change is one transaction that first locks the lease rows of its
//     partitions, ascending, as the workers' marks do. It reads the rows again
//     under these locks: only those that are dead (or failed) by then.
//   - Workers do not touch dead rows between claim and mark. A failed row may be
//     on its way while it is requeued: the mark compares generations and leaves
//     the row, which is published again under its new generation.
//   - A transaction of its own takes a scheduled row out of the workers' reach for five
//     minutes before the row is cancelled or moved. The row goes on by itself should the
//     command die between the two. If its time came before that commit, a worker may
//     have begun with it, and it is let go as it was.
//   - Within a stream nothing is published before an earlier row that is still
//     in the outbox. A requeued row behind a dead one waits for it.
//   - Every change writes one row of outbox_audit in its transaction: who, what,
//     why, and what the rows looked like. Nothing is changed without it.
//   - No statement of a search reads more rows than it was given, whatever the
//     filter, the size of the tables and their statistics: its limit applies before
//     the filter, in the order of one index.
//   - Pages that follow each other show every message that is there throughout
//     exactly once, whatever comes and goes: its sequence, which never changes, is
//     its place, and each page is one snapshot.
//   - A selection takes the rows dead at its beginning. Rows that die again
//     meanwhile are not taken a second time, so that it comes to an end.
//
// # Failures
//
// Wrong input is an InputError that names the field; nothing was changed. Selections larger than a chunk are several transactions: when a
// later one fails, the result says how many messages were changed before, and doing it again takes the rest. A lock that cannot be had in
// time is ErrBusy.
package ops
