// Package coordinator turns a snapshot of the cluster into a plan, and the plan into leases. It runs one delivery function on the set of
// leases it holds, and knows nothing of delivery.
//
// # Model
//
//	snapshot (workers, lease rows) ─Assign─▶ plan ─┬─ held, not mine any more ─▶ drain ▶ release ▶ ring
//	                                               └─ mine, free ──────────────▶ acquire
//
// The loop reconciles on every doorbell, when a lease that it waits for runs out, and at least every Interval. Workers compute their plans
// each from its own snapshot; two that see different members only delay each other, because a plan grants nothing: the lease row does. The
// members are read each time; large clusters read the leases only when they may have changed (docs/scaling.md, where hundreds of
// coordinators are simulated).
//
// # Invariants
//
//   - A partition is released only after all in flight under its lease is
//     settled. So a planned handover causes no duplicate, and no pause longer
//     than the work in flight.
//   - Each partition is released as soon as it is idle, together with those that
//     are idle then; none waits for a slower one.
//   - The heir's doorbell is rung after the release, never before.
//   - An acquisition is not cut by a stop: the worker knows each lease that the database grants.
//   - A worker that is not a member by the database's clock acquires nothing; it
//     keeps what it holds.
//   - A worker that an operator asked to drain gives everything back and takes
//     nothing more until its process is started again; the heirs wait for the
//     work in flight as in any planned handover.
//   - Stopping drains everything, releases it, deletes the worker's row and only
//     then ends the delivery function's context.
//
// # Failures
//
// When the database is away nothing is reconciled: leases run out locally and are taken again when it is back. When the delivery function
// fails, everything is released and Run returns its error. A drain that exceeds DrainTimeout is cut: the lease ends, its row is freed, and
// what was in flight is settled by the next owner.
package coordinator
