// Package api is the monitor's JSON API and its event stream, for programs. openapi.yaml describes it, and tests of package ui compare the
// two, route by route and answer by answer.
//
// # Model
//
//	Cache ──▶ summary, workers, partitions, throughput, ownership; hub ──▶ one "snapshot" event a second to each open stream
//	Desk  ──▶ messages, payloads, audit, and every action
//
// [API.Routes] lists the addresses; the handler of package ui guards them.
//
// # Invariants
//
//   - Unknown parameters and fields are refused, commands are application/json alone, and a POST has no query string: a misspelling must not
//     widen the selection.
//   - Every answer made from a snapshot opens with its age.
//   - The hub reads while a stream is open and no longer; a slow reader misses events and costs nothing.
//   - Numbers are written exactly. A reader with IEEE doubles, such as JavaScript, reads them exactly up to 2^53, which sequences and counts
//     will not reach.
//
// # Failure handling
//
// Past the cache's StaleAfter answers from the snapshot are 503. Failures are one JSON object with a code for programs and a message for
// people; a failed action also reports its count so far.
package api
