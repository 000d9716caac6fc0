// Command peers measures Postrider beside other ways to get events from PostgreSQL to JetStream in Go, on the same events,
// in turns, in the scenario "peers" of package measure. It is a module of its own, so that the other tools need none of the 17 modules
// that come with them.
//
//	make bench/peers
//	make bench/peers PEERS="-rounds 5 -events 200000 -json $PWD/peers.json"
//
// # Model
//
// Every peer's own tables are filled by its own API before the clock starts, and copied for each round. Its relay runs in a
// process of its own; the clock runs from the signal to start, when it is connected, to the time at which the broker stored
// the last event. All put the same subject, headers, message id and body on a message, and wait for the acknowledgement
// before they call an event done.
//
//   - River: a job for each event; 2,000 workers, the shortest cooldown and poll interval that it allows, acknowledgements awaited by
//     each worker, so that 2,000 publications are in the air. It keeps no order.
//   - Watermill: the SQL forwarder with its default schema, batches of 1,000 instead of 100, and a poll interval of 10 ms. It publishes one
//     message per round trip to the broker, as its handler takes one at a time. One topic keeps the order of all; eight
//     topics, by partition, are eight forwarders in a process. The tables are analysed.
//
// Both get large batches and short polls where their documentation leaves a choice. Neither has fences or leases.
//
// # Invariants
//
// The checker reads the stream back: nothing may be lost or repeated, and where the peer keeps order, streams must be in
// order. There is no figure of a round that is not proven so.
//
// # Failure handling
//
// A peer that cannot start or stands still for 30 s ends the benchmark with what it logged.
package main
