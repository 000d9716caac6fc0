// Command testreport runs `go test -json` and turns its events into a report for people.
//
//	bin/tools/testreport [-totals FILE] [-least N] [-again N] -- go test -json FLAGS... -- PACKAGES...
//
// # Model
//
// The report has a line for each package as it ends, the output of failed tests, and the reasons of skips. It ends with the
// line "N passed, N failed, N skipped". Subtests count like tests. With -totals the three numbers are also added
// to those in FILE, so that several runs can be summed up; -totals FILE -sum prints the sum alone, behind the messages of
// failed tests, for people who read only the end.
//
// With -again a failed test is run again, alone, so many times. If it passes each time it counts as passed, and a line
// that begins with FLAKY names it: somebody has to mend it, but its subject stands.
//
// # Invariants
//
//   - Nothing that failed is left out of the count: a package that does not build, panics, leaks or ends without a
//     failing test counts as one failure, and so does a test that began and never ended.
//   - Text of the race detector is printed with the package that failed, whichever test seemed to write it. No test of that
//     package is run again: a race seen once exists.
//   - A package that broke off, by a panic, its time or its own exit, stays failed: what came behind has not run. Nothing of
//     it is run again. Nor is a failure forgiven that did not pass alone under its own name, but was skipped or not found.
//   - More than a handful of failures are no bad luck: then nothing is run again.
//   - The exit status is 0 only if a package reported, nothing failed, and at least -least tests passed: a suite skipped as a
//     whole has not been run.
//
// # Failure handling
//
// Lines that are no events, such as messages of the go command, are passed through. The status of go test itself is
// not asked for: its events say more.
package main
