// Package house holds the rules of the repository as tests: who may import whom,
// how long files and functions may be, that every package opens with a doc.go.
//
// # Model
//
// The rules are tables in the tests. The imports come from the Go command, the sizes from the syntax trees.
//
// # Invariants
//
// A rule that is broken fails the build, with the name of the file or package.
//
// # Failures
//
// None at run time: the package has no code outside its tests.
package house
