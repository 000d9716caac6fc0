// Package shape makes messages to be published of stored events.
//
// # Model
//
// A Transform (ADR 17) changes a Draft of an event. A Shaper applies the transforms to the messages of a batch, one after the
// other, on a goroutine of the batch (Hooks). It gives a message that need not be sent its outcome.
//
// # Invariants
//
//   - The same stored event gives the same message, in every process and at any time.
//   - A large payload is transformed alone: it is in memory several times.
//
// # Failures
//
// A transform works on a copy. Its error or panic is that message's failure, a result beyond the limits a permanent one. One that
// does not return in time costs its message an attempt and is left behind. While 16 are, no more are begun.
package shape
