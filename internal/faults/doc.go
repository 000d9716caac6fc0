// Package faults holds the fault suite: whole clusters, with real processes on every side, while something breaks.
//
// # Model
//
// Each test builds a cluster (see clustertest), puts it under load, injects the faults of one kind, and lets the
// cluster's own Verify judge: every committed event is in the stream once, in the order of its partition, in whole
// batches under ascending epochs, and the tables say the same. Faults come from signals to workers, from
// killed brokers and databases, from proxies on the links, and from what operators and producers do.
//
//	make test/faults                         the short form of every kind
//	make test/faults SLOW=1                  all of them, on one broker and on three, and a short soak
//	make soak DURATION=10m SEED=1            random faults of all kinds, by turns
//	make soak/report DURATION=10m SEED=1     the same, with a row in docs/soak.md
//	make soak/inbox DURATION=10m SEED=1      random faults of consumers, whose effects are judged
//
// POSTRIDER_FAULT_DURATION (a Go duration) sets how long random kills go on in the slow tests.
//
// # Invariants
//
//   - Random choices are drawn from a seed that the test prints, so that the same faults come again. Their effect on
//     the processes is up to the machine.
//   - A fault lasts as long as it must; everything else waits for conditions.
//   - A scenario proves that its fault struck: a proxy counts it, a process is gone, a refusal is counted.
//
// # Failure handling
//
// A violation is reported with its event and place in the stream. The logs of all processes follow.
package faults
