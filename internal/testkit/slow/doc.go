// Package slow marks the tests that take so long that only CI and the patient run them.
//
// Model: POSTRIDER_SLOW=1 lets them run, as `make test/slow` and CI do. Everything else skips them.
//
// Invariants: a slow test checks the same promises as its fast neighbours, for longer or on more nodes; leaving it
// out leaves no promise unchecked.
//
// Failure handling: there is none; a value other than 1 means skip.
package slow
