// Package lease owns the tables outbox_partitions, with the owner of each partition, and outbox_ownership, with its former ones.
//
// # Model
//
//	free ──acquire──▶ held(owner, epoch) ──release──▶ free
//	 ▲                      │ renewal stays away
//	 └──── TTL runs out ◀───┘        (the next acquire raises the epoch)
//
// Only the lease row grants. The epoch is the fencing token: every acquisition raises it. Every write under a lease begins its
// transaction with a compare-and-set on (lease_owner, lease_epoch) of that row. The row also carries the partition's progress, so
// that lease, fence and progress cannot come apart. All times are the database's clock_timestamp().
//
// In the process, a held lease is a context. It ends with ErrLost when the
// lease can no longer be trusted, with ErrReleased when it was given back.
//
// # Invariants
//
//   - Safety rests on the epoch alone; time only gives liveness.
//   - A lease is trusted locally until start of its last successful renewal +
//     TTL − Margin, on the monotonic and on the wall clock: the monotonic one
//     stands still during a suspend. The local end therefore comes before the
//     database lets anybody else in.
//   - Work enters a lease and leaves it (Enter, Leave). A lease is released only
//     when nothing is inside. A process does not acquire a partition again while
//     work of an older lease is still inside.
//   - Renewals are one statement for all partitions.
//
// # Failures
//
// A renewal that fails changes nothing; trust runs out by itself. A renewal that finds another epoch in the row ends the lease at once. A
// row that somebody else holds locked is passed over, and only its lease runs out. A release that fails leaves the row to its TTL. The
// answer to an acquisition may be lost: a worker that ends frees every row that still carries its name (Disown). A writer whose
// compare-and-set finds no row was fenced: it must drop its work and end the lease with Lost.
//
// # History
//
// The statement that takes, gives back or removes leases also writes outbox_ownership: both happen or neither. One row serves all leases
// that it found alike, so moving thousands of partitions costs a few rows: 0.15 ms a statement, a tenth more for 1,024 leases. Hosts are
// written down, since the rows of workers go. A lease that ran out gets its row when it is taken: nobody acts on it before. A raised epoch
// moves nothing; the next acquisition shows it. The lease row remembers who gave it back (released_by) until the next acquisition.
// pgstore.Sweeper removes old rows.
//
// # Without leasing
//
// A single worker may run without leases (AcquireSolo): it raises the epoch of every partition once and leaves the owner empty. Any later
// acquisition, by a leased worker or by a second solo one, fences it with its next write.
//
// Decision: ADR 4.
package lease
