// Package natstest gives every test NATS servers of its own, with JetStream.
//
// # Model
//
// Start launches one server or a cluster of three and ends it with the test. Connect and JetStream make clients of
// it; Stream creates the stream that Postrider publishes to, with the defaults of production: subjects
// events.> and outbox.fence.>, file storage, atomic batches allowed, new messages refused when full.
//
// The servers run inside the test process, or in containers (see package backend).
//
// # Invariants
//
//   - No two tests share a server. After the test no goroutine, container or folder of it is left.
//   - Clients never give up reconnecting and never buffer what they publish meanwhile, as the relay's own
//     connection: a test sees every interruption.
//
// # Failure handling
//
// A server that cannot start fails the test with the reason. Nodes can be stopped and restarted only inside
// the test process: Cluster skips the test on containers.
package natstest
