// Package projection keeps tables in PostgreSQL in step with the events of an outbox: each event applied once, in the order of its stream.
//
// # Model
//
// A user writes a Projector: the tables, and what one event does to them. Config.Schema belongs to that projection
// alone and holds its tables and the schedule, projection_streams, one row per stream:
//
//	applied, expected   the watermark: the version applied last, and the one to be applied next
//	applied_event       the checkpoint: the id of the event applied last
//	wanted              the highest version that a message or a look at the journal told of
//	due_at              when a worker may take the stream; NULL when there is nothing to do
//	lease, epoch        who has it, and the how manieth owner that is
//	attempts, dead_at   of the head, the event to be applied next: only a head can fail
//	fingerprint         a sum over the stream's rows as the last event left them
//
// Since only the head of a stream can fail, the state of a stream is that of its head, and there is no row per event: the journal, the
// table events, is the queue. A message of JetStream is a doorbell with a stream's version; it is acknowledged when that is stored. Its
// body is not used: the event is read from the journal, which is the truth. So a message that comes twice, late, out of order or not at all
// makes no difference. A version of a stream that is being applied cannot be stored: its newest message waits, and nothing waits for it.
// Every Config.SweepInterval a look at the ends of all streams finds the versions that no message announced. No cursor over sequences could
// do that: sequences do not become visible in their order.
//
//	message ─▶ announce ─▶ claim ─▶ ┌ one transaction ─────────────────────────────────────────┐
//	sweep  ──▶    (wanted, due)     │ lock the row · read the events behind applied · Apply … · │
//	                                │ fingerprint · move the watermark, if still the owner      │
//	                                └──────────────────────────────────────────────────────────┘
//
// There is no inbox (package inbox) in between: it remembers messages so that none is processed twice. Here the
// watermark, which moves in the transaction of the effect, does that with one row per stream and no retention.
//
// Workers claim as many streams as they have hands free, the longest due first, and take a stream for one batch
// (Config.BatchEvents); if there is more it queues up again behind the others. So no stream starves another, and the next
// claim follows the last at once while there is work.
//
// # Modes
//
//	inline   the producer applies in its own transaction, with ApplyTx. No workers
//	outbox   workers apply, with Run. ApplyTx is refused
//	shadow   workers do the same in Config.ShadowSchema, next to the live projection, with a durable consumer of their own. Nothing
//	         of the live one is touched, no attempt is counted, nothing dies: a failing event is tried for ever, with backoff
//
// New refuses combinations that do nothing or the wrong thing, by name: outbox without workers, inline with them.
//
// # Invariants
//
//   - Effect, checkpoint and watermark are one transaction.
//   - A watermark moves only under the row's lock, from the value that was read under that lock, and by the owner: the epoch
//     is compared. It never moves back, but for a Repair with rewrite.
//   - Two transactions of one stream never overlap, whatever the leases say: the row's lock is held from the first
//     statement to the commit. Leases decide who may begin; they run by the database's clock.
//   - Strict head of line: nothing of a stream is applied behind an event that was not.
//   - Audit-only events are passed without being applied, and count as applied. At the end of a stream nobody announces
//     them; the look for gaps asks for the last event that is to be applied, so they are no gap there either.
//   - A repaired stream changes in one transaction: readers see the rows before or the rows after.
//
// # Failure handling
//
// An error of Apply undoes the batch. The events before the failed one are applied without it, and that one waits
// min(2^(n-1) s, 5 min) after its nth failure; after the eighth, or at once for an error marked Permanent, it is dead.
// A dead head is logged when it dies and at every sweep, and counted in outbox_projection_dead_heads; Requeue and
// RequeueDead give it its attempts back. A panic is an error. A batch that takes longer than Config.LeaseTTL is cut
// before its current event, which fails if it takes so long alone.
//
// An error of the database that says nothing about the event (connection, deadlock, serialization, shutdown, disk full)
// counts no attempt; the stream is tried again. While the database is away, workers ask for work every two seconds at
// most. While NATS is away the sweep finds the news.
//
// A process that dies loses its sessions, so PostgreSQL undoes what it had under way; its streams come up again when their leases run out.
// After the database's clock has stepped back that is a TTL after another process first looked. One that is frozen loses its transaction
// to idle_in_transaction_session_timeout (LeaseTTL), and when it wakes up its epoch is an old one. An event that kills every process that
// applies it is not noticed as such: its stream is taken again each time a lease has run out.
//
// An Apply fails, too, if it passes over an error of the database, ends the transaction, or takes no notice of the end
// of its context.
//
// Detect compares watermarks and fingerprints with the journal and names what is wrong by kind; Repair replays the streams. CheckIntegrity
// rebuilds everything elsewhere and compares: it also finds rows that Apply would not write today. It cannot know the right one of two
// journals: when the database forgot events (kinds Ahead and Diverged), people decide.
package projection
