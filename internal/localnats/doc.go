// Package localnats runs NATS servers with JetStream inside this process: one, or a cluster of three.
// `postrider dev` and the integration tests stand on it.
//
// # Model
//
// A Cluster is one or three servers on 127.0.0.1, each with its own folder below StoreDir. Three servers form one JetStream cluster, so
// that streams with three replicas, elections and lost nodes behave as they do in production; only the network between them is not real. A
// node that is stopped and restarted keeps its ports, name and folder.
//
// # Invariants
//
//   - Only loopback is listened on. There is no authentication: every local process is trusted, and no data
//     of other people is in reach.
//   - When Start returns, every node accepts clients; with three nodes there was a moment at which a meta leader
//     knew all three and every node had caught up with it. RestartNode promises the same of its node. A later
//     election under load, say, is up to the cluster.
//   - Stop waits until the servers are down and removes only a StoreDir that Start created.
//
// # Failure handling
//
// A server reports fatal problems to its logger and then never becomes ready; Start collects the report and returns it. A port taken
// between choosing and binding is replaced, five times at most, unless the caller named it. Stopping two of three nodes takes the cluster's
// quorum away, as in production: RestartNode then waits for the quorum's return until its context ends, so restart both from two
// goroutines, or the first with a deadline.
package localnats
