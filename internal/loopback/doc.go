// Package loopback picks TCP ports on 127.0.0.1 for servers that Postrider starts itself.
//
// Model: a port is drawn at random from a range that lies below the range from which operating
// systems take the source ports of outgoing connections, and is then probed by listening on it once.
// A server that is stopped and started again therefore finds its port free, which a port from the
// ephemeral range cannot promise.
//
// Invariants: nothing stays open; the package keeps no state.
//
// Failure handling: a probed port is not reserved. Two processes can draw the same one, so whoever
// binds it must treat "address already in use" as a reason to draw again.
package loopback
