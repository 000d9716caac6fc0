// Package heartbeat owns the table outbox_workers: the members of the cluster right now.
//
// # Model
//
// A worker is one start of one process, named by a UUIDv7, so that newcomers sort last. It writes its row again every Interval with
// heartbeat_until = clock_timestamp() + TTL, by the database's clock. A worker counts as a member while its row says active and
// heartbeat_until lies in the future. A worker that shuts down first turns draining, so that the others plan without it while it finishes,
// and finally deletes its row. An operator can ask a worker to drain by setting drain_requested_at; the worker answers by turning draining,
// and stays so until its process ends or the operator takes the request back.
//
// # Invariants
//
//   - Membership grants nothing: it is only the input of a plan. Leases grant
//     (package lease).
//   - A beat is an upsert. A worker whose row was purged, because it was
//     suspended or cut off for long, is a member again with its next beat.
//   - The beater has its own goroutine and connection: neither a slow delivery
//     nor an exhausted pool makes a living worker look dead.
//
// # Failures
//
// A failed beat is logged, counted and tried again sooner. Nothing else happens here: when beats stay away for a TTL the others plan
// without this worker, and its leases run out by themselves.
package heartbeat
