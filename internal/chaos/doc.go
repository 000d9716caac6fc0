// Package chaos breaks a running cluster, in an order drawn from a seed, and proves that nothing was lost, reordered or doubled meanwhile.
// `postrider dev --chaos` stands on it, and whatever else strikes servers that somebody uses.
//
// # Model
//
//	Crew ── workers: child processes of this very program, so that SIGKILL and SIGSTOP are real
//	Load ── a steady producer, every outcome of which goes into the ledger
//	Proxy ── between workers and servers, so that connections can be cut
//	Engine ── load, mishaps one after the other, drain, Verdict
//
// A [Mishap] is something that can be made to happen. The crew has three ([Crew.KillWorker], [Crew.KillUnmarked], [Crew.FreezeWorker]), the
// proxy one for each kind of server ([Proxy.Cut]) and two for a worker's network ([Proxy.Hold], [Proxy.Late]), the load one ([Load.Slow]);
// mishaps of servers are the caller's, who has the servers. [Engine.Run] strikes by turns:
//
//	whole and quiet ─▶ strike ─▶ over: leases moved, backlog gone (timed) ─▶ mend ─▶ whole and quiet …
//
// Whole means: each partition is leased by a worker that runs, each worker has its share, and nothing committed waits longer than
// Config.Behind for its reception. Latency is measured between mishaps only: the import before them and the time of each are left out.
//
// Messages come in through [Engine.Receive], by whatever subscription the caller has. A screen shows [Engine.State].
//
// # Invariants
//
//   - The order of the mishaps, and whom they strike, is a function of the seed and nothing else: rounds, in each of which every kind comes
//     once. How many fit into the duration is up to the machine; one round always happens.
//   - A mishap begins only when the one before is over and mended. Everything waits for conditions; time only bounds the whole.
//   - The ledger judges (internal/ledger). An event is lost only after the last wait; until then it is waiting.
//   - A worker ends with this process, also when that is killed (on Linux; elsewhere it stays).
//
// # Failure handling
//
// A mishap that is not over within Config.Patience ends the run: the verdict names it, and is not OK. So does a worker that ends by itself,
// with the last lines of its log. A commit whose answer was lost is of unknown outcome: its reception settles it.
package chaos
