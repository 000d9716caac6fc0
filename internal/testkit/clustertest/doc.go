// Package clustertest runs whole clusters: `postrider run` as real processes against the servers of pgtest and
// natstest, under a load whose every outcome is written down, and judged by one subscriber.
//
// # Model
//
// Main builds the program once per test binary, on first use. A Cluster is one migrated database, one stream, one
// ledger and any number of Workers, which a test starts, stops, kills and freezes by signals. Produce appends events
// until it is stopped; Subscribe gives everything that the stream holds to the ledger's checker; Verify ends both
// and compares the commits, the receptions and the tables.
//
//	func TestMain(m *testing.M) { clustertest.Main(m) }
//
//	c := clustertest.New(t, clustertest.Config{})
//	c.Start(t, 3)
//	c.Subscribe(t)
//	c.Produce(t, clustertest.Load{})
//	…
//	c.Verify(t)
//
// For faults on the links a Proxied cluster has its workers behind proxies (see faultproxy); for faults of the broker StartBrokers runs the
// nodes as processes of their own, which can be killed: children of the test binary that Main turns into NATS servers.
//
// Two judges look at the stream. The subscriber's checker follows it while it grows and compares with what producers declared. Contents
// reads it once more at the end, events and control messages in stored order, and knows the rules of the fence: whole batches or single
// messages behind an announcement, closed by the control message that lists them, and epochs that never descend.
//
// # Invariants
//
//   - Nothing waits for time: every wait is for a condition of a process, the database or the stream, and ends with
//     the context's deadline.
//   - No worker outlives its test, nor the test binary.
//   - A producer never guesses: an outcome is committed, failed, or unknown because the connection broke in COMMIT.
//
// # Failure handling
//
// A worker that ends unasked fails its test. The output of every worker is printed when the test failed. A
// program that cannot be built fails every test that asks for it, with the compiler's words.
//
// POSTRIDER_TEST_RACE=1 builds the program with the race detector; a race then ends it with status 66.
// POSTRIDER_TEST_DUMP=1 prints the goroutines of the processes of a failed test.
package clustertest
