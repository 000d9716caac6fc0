// Package processor measures benchmarks' use of the processors.
//
// Model: Time is the processor time of this process so far, in all its threads. Unlike the time on the clock, its
// differences say something on a machine that others use, too.
//
// Invariants: it never falls.
//
// Failure handling: a system without an answer ends the benchmark.
package processor
