// Package loopback picks TCP ports on 127.0.0.1 for servers that Postrider starts itself.
//
// Model: a port lies below the range of operating systems' source ports for outgoing connections, and is probed by
// listening on it once. A server that is stopped and started again therefore finds its port free, which a port
// from the ephemeral range cannot promise. Each process goes through blocks of the range, drawn at random, port by
// port, and listens on the first port of each until it ends.
//
// Invariants: no two processes have the same block, as long as there is one for each; none gives a port out twice.
//
// Failure handling: a port itself is not reserved. Anybody else may take it, so whoever binds a port
// must treat "address already in use" as a reason to ask again.
package loopback
