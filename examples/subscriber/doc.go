// Command subscriber reads the events with an ordered consumer of JetStream, from
// the oldest on, and prints what the headers say.
//
//	NATS_URL=nats://127.0.0.1:4222 go -C examples run ./subscriber
//
// An ordered consumer is ephemeral, delivers in the stream's order and restarts
// itself where it stopped when it misses a message. It acknowledges nothing, so
// the program keeps its own position: a service would store the stream sequence
// together with what it did, and begin after it.
//
// The program also drops a message whose version it has passed: a replay, or a
// database restored to an earlier time, publishes events again.
package main
