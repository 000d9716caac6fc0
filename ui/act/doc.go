// Package act is what people and programs do through the monitor, and what they are told when it cannot be done. Pages and API act through
// the same [Desk]: one right, one name, one record in the log, one choice of words for what went wrong.
//
// # Model
//
//	request ──▶ Who ──▶ Desk: look, or right ─▶ operator ─▶ log ──▶ result, or Complaint
//
// An [Identity] is noted in a request by the handler's guard. [Look] reads single messages, the Desk's methods act on messages, partitions
// and workers, and make replays and resizes, which a process that serves them runs. The parameters that pages and API have in common are read by query.go.
//
// # Invariants
//
//   - An action checks the right once more, is audited under the identity's name, and leaves one record in the log, also when it was refused
//     or failed. The reason and the filter, which may hold data, are in the audit alone.
//   - Each look and each action has a deadline of its own.
//
// # Failure handling
//
// Without an operator everything fails with [ErrNoOperator]. A [Complaint] tells in general words what went wrong; the cause of a failure of
// the database goes to the log, without credentials.
package act
