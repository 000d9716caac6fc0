// Package loopback picks TCP ports on 127.0.0.1 for servers that Postrider starts itself.
//
// Model: a port comes from a range that lies below the range from which operating systems take the source ports of
// outgoing connections, and is then probed by listening on it once. A server that is stopped and started again
// therefore finds its port free, which a port from the ephemeral range cannot promise. Each process goes through
// blocks of the range, drawn at random, port by port.
//
// Invariants: nothing stays open; a process gives no port out twice before it has gone through its block.
//
// Failure handling: a probed port is not reserved. Two processes can draw the same block, so whoever binds a port
// must treat "address already in use" as a reason to ask again.
package loopback
