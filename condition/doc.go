// Package condition holds the causes that keep a worker from delivering.
//
// # Model
//
// A Board belongs to one process. Delivery, coordinator and heartbeat report to it the error that stopped them, under their own name,
// and nil when they go on. Watch adds probes that ask the servers each second, so that a cause is known although nothing is to be
// delivered. A Reason is one of a bounded set, for metrics and for programs; the detail is the error, for people. One Board feeds the
// metric, the readiness and the worker's row in outbox_workers; other workers' monitors show that row.
//
// # Invariants
//
//   - An outage has many symptoms: of those that concern the same server only the
//     first in the order of Reasons is listed, the one that explains the others.
//   - A report stays until the same source reports nil, or its time is over.
//
// # Failures
//
// A Board keeps no error back and causes none: it blocks nobody, and lists unknown errors as Other.
package condition
