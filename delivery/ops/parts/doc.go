// Package parts keeps the events in parts of a partitioned table (ADR 30): a new one begins when it is wished, old ones become files
// and go.
//
// # Model
//
// Split puts a partitioned table in the place of events; the old one is its first part. Part n holds the sequences from n times 10^12 on.
// Begin moves the identity to the first sequence of the next part, and makes the one behind it: no bound of a part ever changes. An
// insert always finds a part: where nobody begins any, the last one grows. Archive writes the oldest part to a file that an import reads
// back, Drop drops it.
//
// # Invariants
//
//   - Ids and versions are unique over all parts: constraints see to each part, the append functions to all. They lock the
//     table before they look, and Begin waits for that lock; so nobody who looked before writes into the new part.
//   - A stream goes on at its next version when all its events were dropped: outbox_stream_heads has the last one.
//   - Events that wait in the outbox or for a replay stay, as does the newest event: by it workers know that the database
//     has not forgotten any.
//   - A file is complete and was read back before its part goes.
//
// # Failure handling
//
// A lock that keeps producers out is waited for LockWait at a time, again and again until Patience has passed: then ErrBusy names who
// held the table. A process that dies leaves everything as it was, or done; an incomplete file has another name.
package parts
