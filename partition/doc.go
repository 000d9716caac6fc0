// Package partition holds the pure functions that decide where work goes: which
// partition a key belongs to, and which worker should own which partition.
//
// # Model
//
// A key is hashed with XXH64, seed 0, over its UTF-8 bytes; its partition is the hash, read as an unsigned number, modulo the partition
// count. The count is stored when the database is migrated; only a resize changes it. The same arithmetic exists in SQL as
// outbox_partition; testdata/xxhash64.golden is read by the tests of both sides.
//
// Assign turns one snapshot of the cluster (living workers, current owners) into a plan. A plan grants nothing: only a lease does.
//
//   - Modulo: workers sorted by id; the worker at position i of n gets every
//     partition p with p mod n = i. Nothing but the member list decides, so two
//     workers that see the same members agree. A change of n moves most partitions.
//   - Sticky: the same balance with the fewest moves from the current owners.
//
// # Invariants
//
// The hash of a key never changes: rows that were stored under it could be overtaken in another partition. Every partition appears exactly
// once in a plan for at least one worker; shares differ by at most one; the order in which the snapshot lists workers or owners has no
// influence; planning again after a plan was carried out moves nothing.
//
// # Failures
//
// The functions cannot fail. A count is checked by Count.Validate and a strategy name by ParseStrategy before they get here; an empty
// member list gives an empty plan.
//
// Decision: ADR 3.
package partition
