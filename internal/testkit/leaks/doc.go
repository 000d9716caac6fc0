// Package leaks lists the goroutines that may be left after the tests of a package: those that cannot be ended from here.
//
// # Model
//
// Each TestMain looks for leaked goroutines with goleak. Known is the short list of exceptions, for pgtest.Main and for
// packages that call goleak themselves.
//
// # Invariants
//
//   - An exception is the function of a library, never one of ours.
//   - No exception hides a server that was never stopped: it has other goroutines, too.
//
// # Failure handling
//
// There is none.
package leaks
