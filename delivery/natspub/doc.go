// Package natspub publishes to NATS JetStream. It is the only package that does. This room is the protocol: how a partition is taken,
// what a record says, how messages are stored, and what follows an unknown outcome. Package wire makes messages and reads answers,
// package streams knows the stream; neither imports this one.
//
// # Model
//
// Fenced publishes atomic batches where server and stream take them. Each partition's part of a batch begins with a control message, its
// record, on the partition's own subject under outbox.fence:
//
//	record{epoch, owner, batch, events} expecting the last record at S, event … event
//
// The stream stores the batch only if the partition's last record still lies at S, and the record's own position is the next S. Parts of
// several partitions share a batch, since a batch costs the server more than what it holds. A new owner reads the last record and writes a
// copy of it under its own epoch, on the same condition (Take); when that is acknowledged, nothing that was sent before can be stored, and
// the record says what is. The protocol is modelled in tools/model.
//
// Elsewhere, and where it is sooner, messages go one by one, all partitions at once. A record announces them, each expects that record,
// and a closing record names their places:
//
//	record{announced} event(record) … event(record) record{places}
//
// A new owner that finds an announcement reads the messages between it and its own record; owners that do so at once share the reads.
//
// Shadow is for replays under subjects of their own. Its messages carry Nats-Msg-Id, the event's UUID, with ":generation" behind it when
// the generation is above 0: the stream's duplicate window stores them once.
//
// # Invariants
//
//   - All attempts to store a part expect the same record, so at most one is stored. A lost answer is asked for by sending again; reading
//     proves nothing but who won.
//   - A record lists every message of its batch, by sequence, generation and identity, and comes first: a server that comes to a limit
//     tears a batch, and the next owner counts the messages behind the record. The records behind the last one known to the database
//     list all messages whose marks may be missing (Between).
//   - One by one, and of one stream key in a shadow, at most one message is in flight: the next is sent when the one before was
//     acknowledged. A pipeline that goes on after a failure would store later messages before the failed one: so it was measured
//     while a three-node stream changed its leader.
//   - An acknowledgement of another stream than the configured one is not taken.
//
// # Failures
//
// Answers are classed (wire.Classify). Unknown (no answer in time, or the connection broke): a batch is sent again under the same
// expectation until its outcome is known; after messages one by one the partition is taken anew. Outage (no responders, stream full or
// without leader, permission taken away; no room for one more batch, until there is): the relay pauses, no attempt is counted. Caused by
// the message (too large, refused header; a batch that is refused again and again is halved until the message is found): an attempt is
// counted, and an incurable one is permanent. Configuration (another stream on the subject): the relay stops and says so.
//
// Decisions: ADR 12 (fence), ADR 31 (one by one), ADR 23 (no stream for each partition), ADR 28 (old records).
package natspub
