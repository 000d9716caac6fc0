// Package natspub publishes to NATS JetStream. It is the only package that does.
//
// # Model
//
// An event becomes one message: the subject is made of a template, the body is
// the payload byte for byte, the headers say where the event comes from. The
// publisher pipelines: it sends many messages without waiting, and matches the
// acknowledgements to them by the reply subject, over one subscription.
//
// In dedupe mode every message carries Nats-Msg-Id, the event's UUID, with
// ":generation" behind it when the generation is above 0. Sending it again
// within the stream's duplicate window stores nothing.
//
// # Invariants
//
//   - Of one stream key at most one message is in flight: the next is sent when
//     the one before was acknowledged. A pipeline that goes on after a failure
//     would store later messages of a stream before the failed one, as it was
//     measured when a three-node stream changes its leader.
//   - The client never resends by itself and never buffers while it is
//     disconnected: a publish that failed here must not appear later.
//   - Every token that a subject takes from data is encoded: letters, digits,
//     '-' and '_' stay, every other byte becomes %XX. Data cannot add a token, a
//     wildcard or a space. Header values cannot add a header.
//   - An acknowledgement of another stream than the configured one is not taken.
//
// # Failures
//
// Answers are classed by their JetStream code. Unknown (no answer in time, or
// the connection broke): published again later under the same id. Outage (no
// responders, stream full or without leader): the relay pauses, no attempt is
// counted. Caused by the message (too large, refused header): an attempt is
// counted, and those that cannot heal are permanent. Configuration (stream
// missing or another one on the subject): the relay stops and says so.
package natspub
