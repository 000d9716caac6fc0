// Package model checks the protocol of publishing by visiting every state that a small system can reach: lease,
// fence, takeover, publish and late marks of one partition. No program imports it; `go -C tools test ./model` runs it.
// README.md has the results.
//
// # Model
//
//	takeover.go  the worker's program, beside "The protocol" in README.md: until it knows what is published
//	worker.go    and from then on
//	stream.go    the broker: an append-only log with an atomic, conditional write
//	database.go  the lease row, the rows of the outbox, asynchronous commits, crashes and failovers
//	network.go   answers that get lost, bytes that arrive late, reads that are stale
//	protocol.go  the precautions, one switch each to leave it out
//	invariant.go the promises that every state keeps
//	explore.go   bounds of the search (package search); canon.go: states that count as the same; trace.go: counterexamples
//
// A State is a value. A step copies it, changes the copy and emits it. Each possible happening is a step: a worker may be
// paused before any of its steps for any time, and may crash there; a lease may run out at any moment.
//
// # Invariants
//
// Every state keeps P1 to P4 of the project's promises as far as one partition can show them, see the function Invariants.
// From every state in which somebody can still act, a state can be reached in which all is published and marked.
//
// # Failures
//
// A violated invariant comes with the shortest trace that leads to it. A step that does not fit into the bounds of the
// arrays is left out, and Result.Truncated says so. Invalid bounds are refused by name.
package model
