// Package gaps compares the events, the outbox, the history and the stream, and
// queues what can be queued without a doubt.
//
// # Model
//
//	never-enqueued         an event that should have been published: no pointer, no
//	                       history, not in the stream
//	unrecorded             the stream holds the event, and the history does not say so
//	pointer-without-event  a pointer row whose event is missing
//	not-in-stream          the history says published, and the stream holds no message
//	                       of the event, by its id: it was made anew, purged, restored
//	                       from an older copy, or lost it
//	unknown-event          a message whose event the database does not know
//	missing-version        versions that a stream of events lacks
//
// Detect reads everything in pages and keeps a few bits for each sequence, besides the gaps that it lists. It looks at suspicions of a
// page again, in one snapshot, before they are gaps: events are published while it reads. A resize meanwhile, or a stream made anew, ends
// it with an error.
//
// Answers of the history begin with its oldest row, since retention removes rows: an older event is only judged where the stream holds
// every message that it was ever given, and is older than the event.
//
// Messages dropped from a stream's front are no gap where that has a reason: its limits, or a purge of the events alone, which leaves
// older records. A note counts them. An Auditor looks for not-in-stream again and again, in the middle of the stream alone, and certifies
// the compared messages.
//
// # Invariants
//
//   - Detect changes nothing.
//   - Repair queues an event only after a second look, under the locks of workers'
//     marks, has found neither pointer nor history row of it; it may be repeated.
//   - Only never-enqueued events are queued by default: nobody can have had them.
//     They come late, in front of the later events of their stream that wait. A message
//     that is not in the stream may have been removed on purpose: it is queued again
//     only where that kind is named, under a higher generation. The other kinds are
//     never repaired: a program cannot know their cure.
//   - Every repair is in outbox_audit, in the transaction of its change.
//
// # Failures
//
// Errors of the database or the broker end the work; nothing is half done. A stream
// that drops messages by subject, age of a single one or acknowledgement cannot be
// compared with the history: a note says so. Several outboxes on one stream make the
// others' messages unknown events.
package gaps
