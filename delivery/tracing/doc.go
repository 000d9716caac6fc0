// Package tracing makes OpenTelemetry spans of a relay's steps. It knows the trace API alone; whoever wires the relay brings a provider
// and an exporter.
//
// # Model
//
//	producer's span ──stored trace context──▶ header traceparent ──▶ consumer's span (child)
//	                          ▲
//	                          └──link── "send events.{topic}.{type}" (PRODUCER, one a batch)
//
// An Observer is told of each step when it is over, and makes a span with the step's begin and end. A consumer continues the producer's
// trace: its parent is the context that was stored with the event. A batch belongs to many traces, so the span of sending it is a root of
// its own that links to each of them. The other spans are "claim", "mark", "take" (of a partition, before its first claim) and the
// coordinator's "acquire" and "hand over".
//
// # Invariants
//
//   - Spans hold numbers, identifiers and classes of errors: no payload, no header,
//     no text of an error.
//   - A stored trace context that is not well-formed by W3C Trace Context gets no
//     link, and changes nothing else.
//   - A batch that the sampler leaves out costs one call of the sampler, whatever
//     it holds. Without an Observer the relay does not even look at the clock.
//
// # Failures
//
// Nothing here returns an error, waits or is waited for: a provider that batches
// spans drops them when nobody takes them.
//
// Decision: ADR 15.
package tracing
