// Package otlptest gives a test a collector of OpenTelemetry traces of its own.
//
// # Model
//
// Start listens for OTLP over HTTP (protobuf) and over gRPC, and keeps every span
// it is sent with the resource it came from. Wait waits for spans. Silent listens
// too, but answers nobody: a collector that hangs.
//
// # Invariants
//
// The spans are decoded from what was sent, by the types of the protocol. Everything
// ends with the test.
//
// # Failure handling
//
// A request that is no OTLP gets an error, as from a real collector, and fails the
// test.
package otlptest
