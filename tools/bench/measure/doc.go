// Package measure measures Postrider against what the machine can do. Command bench and the peers are its programs.
//
// # Model
//
// A [Scenario] is a list of cases that are measured in turns: one round runs every case once, the next round again
// backwards, so that changes of the machine affect all cases, and none always follows another. A case gives a [Sample]: values by name, and the checker's
// verdict. The report has the medians over the rounds. Ratios are taken within a round, between a case and its base, and
// only then reduced to a median.
//
// The base is mostly a null relay: a program that reads the events in order, publishes them and waits for the
// acknowledgements, and keeps no state: no leases, marks, retries or metrics. It builds the same headers, writes the
// protocol by hand, and publishes in one of two ways: in atomic batches, as the relay does where the stream takes them, or
// pipelined with message ids.
//
// PostgreSQL, NATS, the relay under test and the null relay are processes of their own, so that /proc tells their use
// of the processors apart. The servers are private: PostgreSQL forces its log to disk here, unlike in `postrider dev`.
// The relay under test is `postrider run` of the program that the configuration names, with leases, order, failure policy, monitor and metrics.
//
// # How a drain is measured
//
// The rows are there, the partitions are paused, and the workers hold all leases. Then the pause ends in one statement:
// the clock runs from there to the time at which the broker stored the last event. Starting and connecting do not count.
// Between rounds the outbox is truncated and filled again from a copy, and a checkpoint is made; the stream is a new one
// on a new server.
//
// # How a system's latency is measured
//
// Scenario "latency" compares other systems by transactions of the same event. 16 connections of one process commit
// transactions of one event each, BEGIN, the system's own insert and COMMIT, each at a time that the rate alone sets: a stall of the
// system delays no later transaction, and a stall of a commit shows in the latency from the due time. A receipt
// is the moment at which the handler begins, in a process of its own on the same machine, by the machine's clock; for the relay the handler
// is an ordered consumer of the stream, so its way leads over the broker. Latency is from the return of the COMMIT, and beside it from the time at
// which the transaction was due, which includes the system's cost to the commit. The use of processors is that from the end of the warm-up
// to the end of the schedule: "relay" is the handler's process and the relay's, "postgres" the server with all of its sessions, those of
// the producers included; the case "transactions alone" has their cost. Neither the order nor a failing handler is measured.
//
// # Invariants
//
// Every sample of events is checked: a subscriber reads the stream back from its beginning (or reads it meanwhile), and
// the checker of internal/ledger compares it with the input. A round in which an event was lost, repeated,
// reordered or changed fails the whole run: there is no figure without the proof. A partial drain is complete
// when each partition's part is. In a round of latency each event that was committed, in the warm-up too, is received once, or the run
// fails.
//
// # Failure handling
//
// The share of the processors that others used is read from /proc/stat. A round above the limit is marked and repeated,
// a few times at most; then it counts, and its mark stays in the report. A child that ends early ends the run with the last lines
// that it logged. Children end with this process: they read its pipe. A subscriber that stands still although the stream, read
// back, holds everything is a failure of the measurement: the round is repeated as a disturbed one is, and then fails the run.
package measure
