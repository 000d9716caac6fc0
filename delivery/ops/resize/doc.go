// Package resize changes the number of partitions of an outbox whose workers and producers go on running.
//
// # Model
//
// Plan previews the move, or refuses it. Run makes it, in five steps:
//
//	freeze   workers give back their leases and take none
//	acquire  one owner takes every lease, as the workers let go
//	take     it takes every partition from the stream: what is under way is stored or refused by then
//	move     pending rows go where their keys belong under the new count, and the audit says who did it and why, in one
//	         transaction (Move)
//	thaw     the owner gives back what it held, and the workers take the new partitions
//
// Command and monitor use the same Run. A Runner calls it for the monitor, whose pages do not wait for the end, one resize at a time; its
// progress stands in the tables (lease.Census), whoever runs it.
//
// # Invariants
//
//   - Rows move only while one owner holds every partition, in the database and in the stream: nothing of any is under way.
//     Move compares each lease, and keeps them and the producers locked out until its commit.
//   - Each stream keeps its order: its rows move together, and messages to come carry a higher generation, since a
//     partition's sequences begin anew.
//   - A row that a producer's own partitioner placed is never moved: it is ErrForeignPartitions.
//   - The stream's losses are left to the workers, by whose setting they come back or do not.
//   - Paused streams never meet others: a pause of everything outlives the resize, one of some partitions is ErrPaused.
//
// # Failures
//
// Transactions of producers that stay open are waited for in turns, between which the others go on; then the error names them
// (ErrProducers). A failure before the commit leaves every row where it was; leases and freeze are given back in any case. A process that
// dies holds nobody up: its freeze ends with its session, and its leases with the freeze. A database that is older than its stream is
// refused once, learns the stream's epochs from that, and is taken with leases above them. Where another resize has ended since Plan, the
// number is compared again under the freeze (ErrCountChanged). A failure behind the commit, or in its answer, fails no resize: the number
// proves it. A resize whose asker went before the workers were asked is given up.
package resize
