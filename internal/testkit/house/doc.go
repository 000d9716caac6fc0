// Command house checks the house rules that no linter knows.
//
//	go run ./internal/testkit/house
//
// # Model
//
// It looks at every file that git tracks or would track, and prints one line per rule broken:
//
//   - every Go package has a doc.go, and that holds the package comment;
//   - no Go file has more than 400 lines, no function outside tests more than 80;
//   - no package has a name that says nothing;
//   - code outside of tests and test kits imports neither testing nor the test kit;
//   - nothing is left to do, and no path of a developer's machine is written down.
//
// # Invariants
//
// It changes nothing, and the same tree gives the same lines in the same order.
//
// # Failure handling
//
// The exit status is 1 when a rule is broken or the tree cannot be read.
package main
