// Package resize changes the number of partitions of an outbox whose workers and producers go on running.
//
// # Model
//
// Plan says what would move, or why it is refused. Run does it, in five steps:
//
//	freeze   workers give back their leases and take none
//	acquire  one owner takes every lease, as the workers let go
//	take     it takes every partition from the stream: what is under way is stored or refused by then
//	move     pending rows go where their keys belong under the new count, and the audit says who did it and why, in one
//	         transaction (Move)
//	thaw     the owner gives back what it held, and the workers take the new partitions
//
// Command and monitor do it by the same Run. A Runner does so for the monitor, whose pages do not wait for the end, one resize at a time; how
// far one is stands in the tables (lease.Census), whoever runs it.
//
// # Invariants
//
//   - Rows move only while one owner holds every partition, in the database and in the stream: nothing of any is under way.
//     Move compares each lease, and keeps them and the producers locked out until its commit.
//   - Each stream keeps its order: its rows move together, and messages to come carry a higher generation, since a
//     partition's sequences begin anew.
//   - A row that a producer's own partitioner placed is never moved: it is ErrForeignPartitions.
//   - What the stream has lost is left to the workers, by whose setting it comes back or does not.
//   - Paused streams never meet others: a pause of everything outlives the resize, one of some partitions is ErrPaused.
//
// # Failures
//
// Transactions of producers that stay open are waited for in turns, between which the others go on; then the error names them
// (ErrProducers). Whatever fails before the commit leaves every row where it was; leases and freeze are given back in any case. A process
// that dies holds nobody up: its freeze ends with its session, and its leases with the freeze. A database that is older than its stream is
// refused once, learns the stream's epochs from that, and is taken with leases above them. Where another resize has ended since Plan, the
// number is compared again under the freeze (ErrCountChanged). What fails behind the commit, or is said of it, fails no resize: the number
// tells whether it was made. One whose asker went before the workers were asked is given up.
package resize
