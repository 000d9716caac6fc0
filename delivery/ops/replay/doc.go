// Package replay delivers events again that were delivered before, and events
// that failed: to the live subjects, or under a prefix of their own.
//
// # Model
//
// A replay is a row of outbox_replays: what is selected, up to which sequence, and how far it is. It is made (Create) before anything is
// delivered, and counts then what it is for; one that is to begin at once (Spec.Begin) is running from the moment it is made, so that none
// is left of which nobody knows what it waits for. Run works it off in steps and may be ended at any time, in good order or by a kill;
// whoever runs it next goes on where it was. One that is made with a rate (Spec.Rate) is run by a process that serves (Serve), of several
// by one, and by the next when that one ended; a command that takes it has it for itself.
//
//	range            every selected event
//	rebuild-current  of every stream the last selected event alone
//	retry            the rows that are dead or failed: they begin anew
//
// A step of a live replay inserts pointer rows into the parked part of the outbox, where the relay's order, fence and failure policy take
// them like any other row, and moves the position in the same transaction. A step of a shadow replay publishes under message ids of the
// replay's own and moves the position when all are acknowledged; one that was interrupted first asks the stream what it holds.
//
// # Generations
//
// A replay's generation is a multiple of 100 above every generation in use, so that a requeue of one of its messages, which adds 1, stays
// below the next replay's. It is in the message id and in the fence's records, so neither takes the message for the one it repeats, and in
// Outbox-Generation, so that consumers can tell. They are given out under a lock, so no two replays have the same. One live replay runs at
// a time, and one that was laid aside gets a new generation when others were made meanwhile: what is published later has the higher one.
//
// # Invariants
//
//   - What a replay is for does not change after it was made: events that are
//     committed later lie above its last sequence, which is taken only where every
//     lower one is decided; events that waited in the outbox when it was made are
//     left out by name, but for those that a shadow finds queued again; a retry's rows
//     are chosen by name. Where somebody changes the events themselves, Job.Differs
//     tells.
//   - An event that lies in the outbox is never inserted a second time. Where one
//     came back there (another replay, a repair), the replay waits until it is gone.
//   - A step compares the runner's id first: a process that was taken for dead and
//     goes on changes nothing.
//   - Lease rows are locked before anything is inserted, as workers' marks do, so
//     that no row is left blocked by one that is just being settled.
//   - Audit-only events are never replayed, nor what an operator skipped or
//     discarded: the audit knows for good. Every start, end and cancellation is in
//     outbox_audit in the transaction of its change.
//
// # Failures
//
// Wrong input is a maintenance.InputError that names the field. A transaction that writes events for longer than a few seconds lowers the
// end to the watermark: Plan.Held and Job.Held name it. Errors of the database or the broker end the run; the replay stays as it was and
// can be run again. Normal delivery is left room: steps are small, paced by a rate, and wait while the outbox holds more than MaxPending
// rows.
package replay
