// Package pairs tries operations against each other: two that are right alone may go wrong together.
//
// # Model
//
// An operation is data: its name, its beginning, its end, and the promises that it takes back by its nature. TestPairs
// makes a cluster for every pair of operations, in both orders: two real workers, producers that write down every outcome,
// a database that can be set back to an older copy, and a stream that can be lost. The first operation begins, the second
// one begins and ends while the first lasts, then the first ends. At last the outbox must empty, and a judge compares the
// ledger, the stream, the tables and the effects of an inbox that follows.
//
//	go test ./internal/pairs                       some pairs, in which every operation occurs
//	POSTRIDER_SLOW=1 go test ./internal/pairs      all of them
//	POSTRIDER_SLOW=1 go test -run '^TestPairs$/^pause×drain$' ./internal/pairs
//
// POSTRIDER_PART chooses other pairs for the short form, and a part of all for the whole one.
//
// The table in docs/guarantees.md has the promises that hold in each pair. TestTheTableIsTold compares it with the
// same data, so that a new operation grows a row.
//
// # Invariants
//
//   - One server serves all pairs, one after the other, each with a database of its own; those that move the clock have
//     another server.
//   - Producers are quiet at the instants at which an operation forgets something, so that what must be there
//     afterwards is known exactly.
//   - Nothing waits for time. Every wait is for a condition and ends with a generous bound.
//   - Failover is real in its effects: the server is killed, an older copy of its files takes its place and is
//     promoted, with a timeline of its own.
//
// # Failure handling
//
// A failed pair names the broken promise, and its choice of pairs. The logs of all processes follow.
package pairs
