// Package maintenance serves the tools that read and mend an outbox beside its workers: operators' commands, replays, the search for
// gaps.
//
// # Model
//
// Read gives one snapshot, Write a transaction whose every statement sees what was committed before it. Both have each statement planned
// for its own values and keep pages in the order of their indexes.
//
// # Invariants
//
// Whoever changes rows of the outbox locks the table, then the lease rows of its partitions in ascending order, then changes. Workers lock
// the latter in the same order, a resize locks the former first; so nobody waits in a circle. While the table is locked the number of
// partitions stays.
//
// # Failures
//
// Wrong input is an InputError that names it; nothing was changed. A change that has to wait for a lock longer than LockPatience is undone;
// Busy recognizes its error.
package maintenance
