// Package walk checks the protocol that is to follow the one of package model: a fence on every message and on every mark, the stream as
// the witness, and healing as a job. It visits every state that a small system of one partition can reach. No program imports it. The
// relay has its row (delivery.Taken), and not yet its walk.
//
// # The protocol
//
// Take, under a lease of epoch e:
//
//	row     write a new name and 0 marks into the partition's row; read its position P and the message there
//	record  write record{e, me, name} by compare-and-set on the last one, until one is acknowledged: at K
//	walk    read the stream from P to K; events between are published. If P does not hold the message that was there, the stream has lost
//	        messages: the row says "stands, kept up to …", and a job queues the history's events behind that again
//	mark    the events that the walk found
//
// Work:
//
//	claim   rows that wait, if the row has the name and the number of marks that the worker left
//	publish one event, or an atomic batch, expecting K; any answer but "stored" has the partition taken anew
//	mark    published events, with the position of the last acknowledgement, if the row is as it was left; that makes one mark more.
//	        Failed rows, and rows from the parking place, are marked before the next claim
//	        A mark without an answer is made again as it was; the number reveals an earlier success
//
// # Model
//
//	takeover.go  the worker's program until it knows what is published
//	worker.go    and from then on
//	healing.go   losses of the stream, and the job that queues the events again
//	stream.go    the broker: an append-only log with an atomic, conditional write
//	database.go  the lease, the partition's row, asynchronous commits, crashes and failovers
//	network.go   answers that get lost, bytes that arrive late, reads that are stale
//	protocol.go  the precautions, one switch each to leave it out
//	invariant.go the promises that every state keeps
//	explore.go   bounds of the search (package search); canon.go: states that count as the same; trace.go: counterexamples
//
// figures.golden has the visited bounds, and the steps until each precaution is missed.
//
// # Findings
//
//   - No message id, no record that names events, and no start, session or clock of the database is needed: a crash or a failover that forgot
//     marks, also to a standby that lags behind, shows in the row. Marks may outlive their session, and nothing but the lease need commit
//     synchronously.
//   - No identity of the stream is needed where the message at the position is compared. Only a position's number is not enough.
//   - A worker may as well count a mark without an answer as made (TrustMark): the next claim or mark finds out.
//   - The job may run twice at a time, be killed anywhere, and need not touch the row's fence. The next owner walks from the kept position: an
//     earlier owner, whose marks are forgotten, may have published there.
//   - Positions come again in a stream that was made anew or restored (Config.Zombies): a worker that was stopped between the look at its lease and its
//     write may then expect the K of another. A record's subject that names the life of the stream (LifeInSubject) shuts it out of one made
//     anew, and not of one that was restored. Connections end with such a stream; the model's other figures assume it.
//
// # Invariants
//
// Every state keeps P1 to P4 of the project's promises as far as one partition can show them, see the method Invariants. From every
// state in which the lease can be acquired, a state can be reached in which all is published and marked.
//
// # Failures
//
// A violated invariant comes with the shortest trace that leads to it. A step that does not fit into the bounds of the
// arrays is left out, and Result.Truncated says so. Invalid bounds are refused by name. Messages of other partitions, messages that expire or are
// purged, losses from the middle of the stream, and events that the database forgets are not modelled.
package walk
