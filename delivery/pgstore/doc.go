// Package pgstore is the outbox in PostgreSQL as a relay, a monitor and an operator see it.
//
// # Model
//
// A Store has the statements of package delivery's interface: claims, events, marks, takeovers, healing, the watermark.
// Their files in sql are named by verb. It also reads the statistics: backlog, oldest rows, latency, throughput, horizon.
// The events relation may be a table or a view of one's own (Relation). Which of its columns exist is looked up once.
// CheckStrict says what stands against the order. CheckDatabase says what the server or the role lacks.
// A Sweeper deletes what is past its retention.
//
// # Invariants
//
//   - A statement that writes compares the lease's owner and epoch first, in its own transaction. A worker that lost its lease changes nothing.
//   - A claim and a mark compare the partition's row with what its owner left. ErrForgotten says that it differs.
//   - A claim proves the watermark in a statement before those that read rows: each has a snapshot of its own.
//   - A watermark and a mark are committed asynchronously. A crash takes them back together with what lies behind them in the log.
//
// # Failures
//
// An error of PostgreSQL is wrapped and returned; no statement is repeated here. An event that cannot be read is
// an event with an Unreadable error, and costs no other one.
package pgstore
