// Package search visits every state that a small system can reach: breadth first, so that a counterexample is as short as any.
//
// # Model
//
// A System emits the states that follow a state, and says which count as one (Key), what must hold in each (Invariants), and
// when nothing is left to do (Finished). From every Live state a finished one must be within reach.
//
// The models share a Set of events, a network that holds requests (Hold, Release), and Classify, by which they test their keys.
//
// # Invariants
//
//   - A state is looked at once; of the others with its key only the steps are counted.
//   - At most one counterexample of each invariant is kept, and there is none with fewer steps.
//
// # Failures
//
// A key that counts states as one that behave differently shows as a panic while a counterexample is written down; the
// models test their keys against the states themselves. What does not fit into bounds is left out and told (Truncated).
package search
