// Package wire speaks to NATS: it makes messages of events, awaits and reads answers, and classes refusals. It knows nothing of records,
// batches or partitions that are taken: package natspub does.
//
// # Model
//
// An event becomes one message: the subject is made of a template, the body is the payload byte for byte or, where a Compressor is given,
// compressed; the headers say where the event comes from, and with CloudEvents they are its attributes, too. A Builder makes messages, a
// Writer one after the other in the same memory.
//
// Answers are matched by the reply subject, over one subscription. How long one is awaited follows the answers before. StreamAPI asks the
// leader of one stream. A Bell wakes other workers.
//
// # Invariants
//
//   - The client never resends by itself and never buffers while it is disconnected (Connect): a publish that failed here must not
//     appear later.
//   - A message depends on the Shape and on the stored event alone.
//   - Every token that a subject takes from data is encoded: letters, digits, '-' and '_' stay, every other byte becomes %XX. Data
//     cannot add a token, a wildcard or a space. Header values cannot add a header.
//   - A refusal by another stream on the subject, under an unexpected name, is not taken.
//
// # Failures
//
// Answers are classed by their JetStream code (Classify): unknown, an outage, configuration, or the message's fault, and then permanent or
// not. Reason gives the condition that an operator sees. A request that nobody answers is made again as long as its context lasts.
//
// Decisions: ADR 6 (the client never sends again), ADR 8 (doorbells), ADR 17 (how messages are shaped).
package wire
