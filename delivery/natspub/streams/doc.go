// Package streams makes, checks and reads the JetStream stream that events are published to.
//
// # Model
//
// EnsureStream finds the stream, or makes it. Needs compares its settings with those that publishers need; workers do so each second. A
// StreamReader reads the stream without payloads. Control names the subjects of an outbox's control messages.
//
// # Invariants
//
//   - An existing stream is never changed.
//   - The subjects of events, control messages and doorbells lie apart: readers of events get nothing else.
//   - A reader asks the stream's leader where a follower's answer could be outdated.
//
// # Failures
//
// Errors name the setting and the cure. They wrap ErrJetStreamOff, wire.ErrStreamMissing, wire.ErrStreamUnfit or wire.ErrConfig; an
// unreachable server is a delivery.ErrOutage.
//
// Decisions: ADR 12 (fence), ADR 23 (no stream for each partition).
package streams
