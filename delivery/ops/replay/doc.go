// Package replay delivers events again that were delivered before, and events
// that failed: to the live subjects, or under a prefix of their own.
//
// # Model
//
// A replay is a row of outbox_replays: its selection, its last sequence, and its progress. It is made (Create) before anything is
// delivered, and then counts its events; one that is to begin at once (Spec.Begin) is running from the moment it is made, so that none is
// left without a known purpose. Run works it off in steps and may be ended at any time, in good order or by a kill; whoever runs it next
// goes on at its position. A process that serves (Serve) runs a replay that has a rate (Spec.Rate), and another one when that process
// ended; a command that takes it has it for itself.
//
//	range            every selected event
//	rebuild-current  of every stream the last selected event alone
//	retry            the rows that are dead or failed: they begin anew
//
// A step of a live replay inserts pointer rows into the outbox's parked part, and moves the position in the same transaction. They are
// subject to the relay's order, fence and failure policy. A step of a shadow replay publishes under message ids of the replay's own and
// moves the position when all are acknowledged; an interrupted one first reads the stream.
//
// # Generations
//
// A replay's generation is a multiple of 100 above every generation in use: a requeue of one of its messages adds 1, and stays below the
// next replay's. Message id and fence's records contain it, so neither takes the message for the one it repeats; consumers read it in
// Outbox-Generation. A lock gives each replay its own. One live replay runs at a time, and one that was laid aside gets a new generation
// when others were made meanwhile: later messages have the higher one.
//
// # Invariants
//
//   - A replay's events are fixed when it is made: events that are committed
//     later lie above its last sequence, which is taken only where every lower one is
//     decided; events that waited in the outbox when it was made are left out by name,
//     but for those that a shadow finds queued again; a retry's rows are chosen by
//     name. Where somebody changes the events themselves, Job.Differs says so.
//   - An event that lies in the outbox is never inserted a second time. Where one
//     came back there (another replay, a repair), the replay waits until it is gone.
//   - A step compares the runner's id first: a process that was taken for dead and
//     goes on changes nothing.
//   - Lease rows are locked before rows are inserted, as workers' marks do: no row
//     stays blocked by one that is just being settled.
//   - Audit-only events are never replayed, nor those that an operator skipped or
//     discarded: the audit knows for good. Every start, end and cancellation is in
//     outbox_audit in the transaction of its change.
//
// # Failures
//
// Wrong input is a maintenance.InputError that names the field. A transaction that writes events for longer than a few seconds lowers the
// end to the watermark: Estimate.Held and Job.Held name it. Errors of the database or the broker end the run; the replay stays as it was
// and can be run again. Normal delivery is left room: steps are small, paced by a rate, and wait while the outbox holds more than
// MaxPending rows.
package replay
