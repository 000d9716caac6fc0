// Package search visits every state that a small system can reach: breadth first, so that a counterexample is as short as any.
//
// # Model
//
// A System emits a state's successors and merges states that count as one (Key). It names the promises of each (Invariants)
// and the end of all work (Finished). From every Live state a finished one must be within reach.
//
// The models share a Set of events, a network that holds requests (Hold, Release), and Classify, by which they test their keys.
//
// # Invariants
//
//   - A state is visited once; of the others with its key only the steps are counted.
//   - At most one counterexample of each invariant is kept, and there is none with fewer steps.
//
// # Failures
//
// A key that counts states of different behaviour as one shows as a panic while a counterexample is written down; the
// models test their keys against exact ones. Steps beyond the bounds are left out and reported (Truncated).
package search
