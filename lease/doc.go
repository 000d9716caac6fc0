// Package lease owns the tables outbox_partitions, who may deliver a partition, and outbox_ownership, who could before.
//
// # Model
//
//	free ──acquire──▶ held(owner, epoch) ──release──▶ free
//	 ▲                      │ renewal stays away
//	 └──── TTL runs out ◀───┘        (the next acquire raises the epoch)
//
// Only the lease row grants. The epoch is the fencing token: every acquisition raises it, and every write under a lease is a
// compare-and-set on (lease_owner, lease_epoch) of that same row, as the first thing its transaction does. The row also carries the
// partition's progress, so that lease, fence and progress cannot come apart. All times are the database's clock_timestamp().
//
// In the process, a held lease is a context. It ends with ErrLost when the
// lease can no longer be trusted, with ErrReleased when it was given back.
//
// # Invariants
//
//   - Safety rests on the epoch alone; time only gives liveness.
//   - A lease is trusted locally until start of its last successful renewal +
//     TTL − Margin, on the monotonic and on the wall clock (the monotonic clock
//     stands still while a machine is suspended). The local end therefore comes
//     before the database lets anybody else in.
//   - Work enters a lease and leaves it (Enter, Leave). A lease is released only
//     when nothing is inside, and a partition is not acquired again by this
//     process while work of an older lease of it is still inside.
//   - Renewals are one statement for all partitions.
//
// # Failures
//
// A renewal that fails changes nothing; trust runs out by itself. A renewal that finds another epoch in the row ends the lease at once. A
// row that somebody else holds locked is passed over, and only its lease runs out. A release that fails leaves the row to its TTL. The
// answer to an acquisition may be lost: a worker that ends frees every row that still carries its name (Disown). A writer whose
// compare-and-set finds no row was fenced: it must drop what it did and end the lease with Lost.
//
// # History
//
// The statement that takes, gives back or removes leases writes what it did into outbox_ownership: one row for all that it found alike, so
// that moving thousands of partitions costs a few rows: 0.15 ms a statement, a tenth more for 1,024 leases than without. Both happen or
// neither. Hosts are written down, since the rows of workers go. A lease that runs out is told when somebody takes it: nobody else acts on
// it. A raised epoch moves nothing; the next acquisition shows it. What an owner or a resize gave back is remembered in the row
// (released_by) until the next one takes it. pgstore.Sweeper removes what is too old.
//
// # Without leasing
//
// A single worker may run without leases (AcquireSolo): it raises the epoch of every partition once and leaves the owner empty. Any later
// acquisition, by a leased worker or by a second solo one, fences it with its next write.
//
// Decision: ADR 4.
package lease
