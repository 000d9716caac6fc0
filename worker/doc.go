// Package worker runs one worker of the cluster inside another program, wired as `postrider run` is: that command uses this package.
//
// # Model
//
// New opens what a worker needs, and checks that the database's tables and the stream fit:
//
//	pools: control (heartbeats, leases, probes), delivery, operator where there is a monitor, audit where there is one
//	heartbeat.Beater, lease.Keeper ── coordinator.Coordinator ── delivery.Relay ── natspub.Fenced
//	condition.Board, which two probes a second and everything above report to; delivery.Sweeper; ui.Server
//	gaps.Auditor, which looks for losses in the middle of the stream, where Config.Audit asks for it
//	canary, which appends an event now and then and reads it back, where Config.Canary asks for it
//	walbell.Listener, which rings for producers that do not, where the database asks for it
//
// Worker.Run joins the cluster, delivers until the context ends, then stops the parts in the reverse order: the monitor, the probes, the
// sweeper, and the coordinator, which drains, releases its leases and leaves. Then everything is closed that New opened. The function Run
// is both in one call.
//
// The outbox must have been made before (`postrider migrate up`, or package outbox/schema). A program may run several workers, and run
// beside workers of the command: what they are of one cluster is said by the tables.
//
// # Invariants
//
//   - Nothing is global: no signal is caught, no default registry, logger or tracer is set, and the environment is read only as far as pgx
//     reads PG* for what the URL leaves out.
//   - When Run has returned, or New has failed, no goroutine, connection or metric of the worker is left.
//   - The context's end is an orderly stop, never a cut: it may take as long as Coordinator.DrainTimeout, and somewhat more where a
//     server does not answer. A program that exits before Run returns is a crash to the others, who wait for the leases' end.
//
// # Failures
//
// What is wrong with a setting, or with what it names, is an error that names the field, and the flag of the command; it wraps ErrConfig
// where trying again is of no use. While a server is away Run goes on; Ready and the monitor say what is missing. Run returns an error when
// a part fails for good, as the relay does when the broker refuses for a reason that only a person can change. It returns ErrClosed when NATS's client
// gave the connection up; the function Run then begins anew.
package worker
