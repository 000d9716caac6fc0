// Command peers measures Postrider beside other ways to get events out of PostgreSQL, on the same events, in turns. It is a module
// of its own, so that the other tools need none of the 17 modules that come with them.
//
//	make bench/peers
//	make bench/peers PEERS="-rounds 5 -events 200000 -json $PWD/peers.json"
//	make bench/peers/latency PEERS="-rounds 5 -duration 10s -json $PWD/latency.json"
//
// # Model
//
// Scenario "peers" of package measure publishes a backlog to JetStream. Every peer's own tables are filled by its own API before
// the clock starts, and copied for each round. Its relay runs in a process of its own; the clock runs from the signal to start, when it
// is connected, to the time at which the broker stored the last event. All put the same subject, headers and body on a message, the peers
// an id, too, and wait for the acknowledgement before they call an event done.
//
//   - River: a job for each event; 2,000 workers, the shortest cooldown and poll interval that it allows, acknowledgements awaited by
//     each worker, so that 2,000 publications are in the air. It keeps no order.
//   - Watermill: the SQL forwarder with its default schema, batches of 1,000 instead of 100, and a poll interval of 10 ms. It publishes one
//     message per round trip to the broker, as its handler takes one at a time. One topic keeps the order of all; eight
//     topics, by partition, are eight forwarders in a process. The tables are analysed.
//
// Both get large batches and short polls where their documentation leaves a choice. Neither has fences or leases.
//
// # Latency
//
// Scenario "latency" is from a commit to a handler at 100 and 1,000 transactions a second (see package measure for the clocks). All
// have the same server, the same producers with the same transaction around the insert, and a body of the same bytes. The cases:
//
//   - Postrider: AppendTx, `postrider run` with its defaults, one worker, a stream of one server,
//     to an ordered consumer of it. Producers ring the bell after the commit, as docs/producers.md advises, or ("no bell") leave it to
//     the workers' polls.
//   - River: InsertTx, to the beginning of Work; LISTEN, 100 workers. Defaults have a cooldown of 100 ms between fetches, and
//     between notifications of one inserting client; the other case has the least that it allows, 1 ms, on both sides.
//   - Watermill SQL: Publish in the transaction, to the message's arrival at the subscriber's channel, where it is acknowledged at once;
//     batches of 100. It has no wake-up: by default it polls after 1 s without a message, in the other cases after 10 ms. One topic, or
//     eight by partition, with a subscriber's loop each.
//   - graphile-worker: add_job in SQL, to the beginning of the task, in Node.js; LISTEN, 24 jobs at once on 25 connections, as its page on
//     performance has it, and the same with that page's local queue of 500 and batched completion.
//
// The handlers of the other systems are in the process that reads from PostgreSQL. Postrider's event is stored by the broker first, and
// received by one more process. All handlers note the time and do nothing else.
//
// graphile-worker is installed by npm into the directory of -graphile, at one version; without node, npm or their registry it is
// left out, and a line says why. Versions are part of the names in the output.
//
// # Faults
//
//	make peers/faults DURATION=10m SEED=1 RELAYS=postrider,river
//
// TestFaults runs each relay as processes between a PostgreSQL and three brokers, behind proxies, and restarts those that end. About 200
// events a second come from transactions that change one to three of 50 accounts, lock each, and give it its next version (ACCOUNTS=1:
// that change one account one to three times); a tenth of them are rolled back. The seed alone decides which faults come in which order: each process is killed, and stopped for 15 s; the
// database is killed, and away for 2 s; the stream's leader is killed, and away for 3 s; all links to the database, or to the brokers,
// are cut, or swallow everything for 12 s. Then the load ends, and each relay has four minutes to publish its backlog.
//
// Package ledger judges all by the same rule: each committed event is in the stream, once, and in the order of its account. The order of
// a partition is that of the numbers that the transactions drew; Postrider alone promises it. The others set message ids, and the
// stream forgets these after two minutes, as is the default: a copy that comes sooner is no double.
//
// The relays have their defaults, with these exceptions (relays_test.go):
//
//   - River keeps an order in River Pro alone (riverqueue.com/docs/pro/sequences), which is not tried. Without it one job at a time in one
//     process comes nearest, with the least cooldown, since it works one job a cooldown. The other case has 100 workers in each of three
//     processes, as its examples have. Both rescue the jobs of dead processes after 10 s: with the defaults these would wait an hour.
//   - Watermill's forwarder stands in three processes, of which one at a time holds the lock of a topic; with eight topics, by partition,
//     the processes share them.
//
// # Invariants
//
// The checker reads the stream back: nothing may be lost or repeated, and where the peer keeps order, streams must be in
// order. Of a round of latency every committed event must have been received once. There is no figure of a round that is not proven so.
//
// # Failure handling
//
// A peer that cannot start or stalls for 30 s ends the benchmark with its log; a handler that receives nothing for 15 s reports its receipts,
// and the rest counts as lost.
package main
