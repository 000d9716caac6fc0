// Command mutants breaks the product on purpose, one promise at a time, and checks that some test notices.
//
//	go -C tools run ./mutants [-run REGEXP] [-passed] [-json] [-list]
//
// # Model
//
// A mutant replaces a piece of one or more files by something wrong: a rule that is known to lose rows, a comparison left
// out, an error taken for another. It names the broken promise (docs/guarantees.md), the tests that must fail, and their
// complaint; -list prints them. The changed copies lie in a temporary folder. An overlay makes the go command read them in
// the place of the originals, embedded SQL included, for tests and for programs that tests build. Nothing in the tree is
// changed, and the texts of this package are its only broken code.
//
// First all tests named run once as they are, but those of make test where that has just passed (-passed). Then come the
// mutants. Three run at a time.
//
// # Invariants
//
//   - The text to replace occurs exactly once. A mutant that fits no longer fails the run before anything is tried.
//   - A mutant is caught only if it compiles, a test fails, and the complaint is the expected one. A server that does not
//     start, or a machine that is too slow, catches nothing.
//   - A time-out counts only for a mutant that is declared to hang.
//   - The exit status is 0 only if every mutant was caught.
//
// # Failure handling
//
// When a test fails without any mutant the run ends there: its answers would mean nothing. Each run has a temporary
// folder of its own, so that what a killed test leaves is removed. For a mutant that survived, or was caught by something
// else, the end of the tests' output is shown.
//
// Decision: ADR 13.
package main
