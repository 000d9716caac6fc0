// Package processor tells benchmarks what they used of the processors.
//
// Model: Time is what this process has used so far, in all its threads. Unlike the time on the clock, its differences say
// something on a machine that others use, too.
//
// Invariants: it never falls.
//
// Failure handling: a system that does not tell ends the benchmark.
package processor
