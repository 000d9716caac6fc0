// Package worker runs one worker of the cluster inside another program, wired as `postrider run` is: that command uses this package.
//
// # Model
//
// New opens the parts of a worker, and checks that the database's tables and the stream fit:
//
//	pools: control (heartbeats, leases, probes), delivery, operator where there is a monitor, audit where there is one
//	heartbeat.Beater, lease.Keeper ── coordinator.Coordinator ── loop.Relay ── natspub.Fenced
//	condition.Board, to which two probes a second and all parts above report; pgstore.Sweeper; ui.Server
//	gaps.Auditor, which finds losses in the middle of the stream, where Config.Audit asks for it
//	canary, which appends an event now and then and reads it back, where Config.Canary asks for it
//	walbell.Listener, which rings for producers that do not, where the database asks for it
//
// Worker.Run joins the cluster, delivers until the context ends, then stops the parts in the reverse order: the monitor, the probes, the
// sweeper, and the coordinator, which drains, releases its leases and leaves. It closes all that New opened. The function Run calls
// both.
//
// The outbox must have been made before (`postrider migrate up`, or package outbox/schema). A program may run several workers, also beside
// workers of the command: workers of the same tables form one cluster.
//
// # Invariants
//
//   - Nothing is global: no signal is caught, no default registry, logger or tracer is set, and the environment is read only as far as pgx
//     reads PG* for what the URL leaves out.
//   - No goroutine, connection or metric of the worker outlives Run, or a New that failed.
//   - The context's end is an orderly stop, never a cut: it may take as long as Coordinator.DrainTimeout, and somewhat more where a
//     server does not answer. A program that exits before Run returns is a crash to the others, who wait for the leases' end.
//
// # Failures
//
// An error about a setting, or about the thing it names, names the field and the flag of the command; it wraps ErrConfig where trying again
// is of no use. While a server is away Run goes on; Ready and the monitor report the outage. Run returns an error when a part fails for
// good, such as the relay whose broker refuses for a reason that only people can change. It returns ErrClosed when NATS's client gave the
// connection up; the function Run then begins anew.
package worker
