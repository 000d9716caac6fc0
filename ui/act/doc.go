// Package act holds the acts of people and programs through the monitor, and the words of its refusals. Pages and API share one [Desk]: one
// right, one name, one record in the log, one wording of errors.
//
// # Model
//
//	request ──▶ Who ──▶ Desk: read, or right ─▶ operator ─▶ log ──▶ result, or Complaint
//
// The handler's guard notes an [Identity] in each request. [Look] reads single messages. The Desk's methods act on messages, partitions and
// workers, and make replays and resizes, which a process that serves them runs. query.go reads the parameters that pages and API share.
//
// # Invariants
//
//   - An action checks the right once more, is audited under the identity's name, and writes one record to the log, even when refused or
//     failed. The reason and the filter, which may hold data, are in the audit alone.
//   - Each read and each action has a deadline of its own.
//
// # Failure handling
//
// Without an operator each call fails with [ErrNoOperator]. A [Complaint] describes an error in general words; the cause of a failure of the
// database goes to the log, without credentials.
package act
