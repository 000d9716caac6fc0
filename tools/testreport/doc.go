// Command testreport runs `go test -json` and turns its events into a report for people.
//
//	bin/tools/testreport [-totals FILE] [-least N] [-again N] -- go test -json FLAGS... -- PACKAGES...
//
// # Model
//
// One line per package as it ends, the output of what failed in full, why tests were skipped, and at last the plain
// line "N passed, N failed, N skipped". Subtests count like tests. With -totals the three numbers are also added to
// those in FILE, so that several runs can be summed up; -totals FILE -sum prints the sum alone, behind the messages of
// what failed, for those who read only the end.
//
// With -again a test that failed is run again, alone, so many times. If it passes each time it counts as passed and is
// named in a line that begins with FLAKY: somebody has to mend it, but what it guards stands.
//
// # Invariants
//
//   - Nothing that failed is left out of the count: a package that does not build, panics, leaks or ends without a
//     failing test counts as one failure, and so does a test that began and never ended.
//   - What the race detector says is printed with the package that failed, whichever test it was taken for output of. No
//     test of that package is run again: a race that was seen once is there.
//   - A package that broke off, by a panic, its time or its own exit, stays failed: what came behind has not run. Nothing of
//     it is run again. Nor is a failure forgiven that did not pass alone under its own name, but was skipped or not found.
//   - More than a handful of failures are no bad luck: then nothing is run again.
//   - The exit status is 0 only if something was reported, nothing failed, and at least as many tests passed as -least asks for:
//     a suite that was skipped as a whole has not been run.
//
// # Failure handling
//
// Lines that are no events, such as messages of the go command, are passed through. The status of go test itself is
// not asked for: its events say more.
package main
