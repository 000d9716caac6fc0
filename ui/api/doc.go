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
//   - Unknown parameters and fields are refused, commands are application/json alone, and a POST has no query string: what is misspelt must
//     not widen what is chosen.
//   - Every answer that is made from a snapshot opens with its age.
//   - The hub reads while a stream is open and no longer; a slow reader misses events and costs nothing.
//   - Numbers are written exactly. A reader that keeps numbers as IEEE doubles, as JavaScript does, reads them exactly up to 2^53; sequences
//     and counts stay below that for longer than anything here will run.
//
// # Failure handling
//
// Past the cache's StaleAfter answers from the snapshot are 503. Failures are one JSON object with a code for programs and a message for
// people; those of an action tell how much was done before.
package api
