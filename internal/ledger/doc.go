// Package ledger knows the producers' commits and judges a subscriber's receptions by them. The fault tests, the development cluster
// and the tail command share it, so it is production code.
//
// # Model
//
// A [Ledger] is the producers' side: they declare every event with [Ledger.Begin] and its outcome with [Ledger.Committed], [Ledger.Failed]
// or [Ledger.Unknown] (the connection broke inside COMMIT), and finally call [Ledger.Finish]. A [Checker] is one subscriber: it is given
// every message in the order of reception ([Checker.Receive]) and judges it, against the ledger if it has one and against earlier
// receptions in any case. [Checker.Report] sums up; [Checker.Wait] returns when everything committed was received.
//
// # What is judged
//
//   - lost: committed, not received. Phantom: received although the
//     transaction failed, or although no producer ever declared it (unless
//     foreign events are allowed).
//   - duplicates: the same event at the same generation under two stream
//     sequences, or a generation after a newer one. A second reception of the
//     same stored message is the consumer's redelivery and only counted. A
//     duplicate is explained when it was received inside a window recorded
//     with [Checker.Explain] (a kill, an ambiguous acknowledgement).
//   - reordered: first receptions must ascend by sequence and by version
//     within a stream and, with [ByPartition], by sequence within a partition.
//     With [ByStream] the partition's reversals are information.
//   - altered: body, stream, version, sequence, partition or message id are not
//     those of the commit, or of the first copy.
//   - epochs: within a partition they ascend in stored order.
//
// An event received again under a higher generation is a replay, asked for by an operator, and is not judged for order.
//
// # Invariants
//
// A message may be received before its producer's Committed call returns: the
// event then waits, unannounced, for its outcome, and its latency counts as
// 0. An unknown outcome is settled by reception: it proves the commit.
// Received counts distinct events, never copies, so received = committed and nothing lost say the same thing. Nothing here polls or sleeps.
//
// # Memory
//
// Without a ledger the checker keeps one bit per sequence number (in pages of 8 KiB), one small record per stream and the 65,536 latest
// identities: ten million events over 100,000 streams take about 20 MB. The bits are bounded at 512 MiB; beyond it the lowest page is
// forgotten, and a message below that horizon counts as a duplicate when its stream has gone past it. A duplicate's bytes can be compared
// only while its first copy is in the cache. Two events that claim one sequence look like a duplicate that was altered. With a ledger all
// of this is exact, at about 150 bytes an event.
//
// # Failures
//
// The package does no I/O. Input that is not a relay's message is an error of [ParseMessage] that names the header. A producer that
// contradicts itself is a fault in the report, of kind [KindLedger].
package ledger
