// Package importer loads events from files of JSON lines into the outbox.
//
// # Model
//
// A line is {"tx","stream","version","type","occurred_at","payload"}, and what else a [Line] has; further fields are ignored. Neighbouring lines of one tx are one
// database transaction, and tx never goes back. A file is plain or gzip, of one member or several, told apart by its first bytes. The
// payload is published byte for byte as it stands in the file.
//
// Transactions are read in chunks of about a thousand events. One query finds the events of a chunk that exist already, by stream and
// version; the others are appended through the producer in the order of the file, each under the condition that its stream is at the
// version before.
//
// # Invariants
//
//   - A transaction of the file is one transaction of the database, or
//     nothing. An event that exists already is left out of it, so that an
//     import can be repeated and completes what an earlier run began.
//   - Sequences ascend in the order of the file.
//   - A stream's versions are those of the file. A file must therefore begin a
//     stream at version 1 or continue it where the database ends; anything
//     else is refused with [ErrVersion], because the outbox numbers streams
//     without gaps.
//   - Commits of events that are not published do not wait for the disk within a
//     chunk; the last one does, and with it all before. A repetition brings back
//     the events that a crashed server forgot.
//
// # Failures
//
// A bad line ends the import with a [LineError] that names the file and the line. Transactions complete before it stay or become committed,
// nothing of its own is written. When the connection breaks inside a COMMIT its outcome is unknown ([ErrUnknownOutcome]); running the
// import again settles it.
package importer
