// Package house holds the rules of the repository as tests: the allowed imports,
// the sizes of files and functions, a doc.go in every package.
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
