// Package faultproxy stands between a client and its server and breaks the traffic, for tests of the consequences.
//
// # Model
//
// A proxy listens on a port of the loopback interface and joins every connection to one server. Start knows bytes only. StartPostgres and
// StartNATS also follow the protocol, from the first byte of every connection, and so can strike at a commit or at an acknowledgement.
//
//	client → reader → queue → hold, latency → protocol → throttle → server
//	client ← throttle ← hold, latency ← queue ← protocol ← reader ← server
//
// Manual faults are switched at any time, for the connections there are and those to come, per direction where that makes sense:
//
//   - Cut resets all connections. Refuse closes the port: new connections get "connection refused".
//   - Blackhole swallows bytes, one way or both: a partition. It still accepts connections.
//   - Hold keeps bytes back; Release delivers them, however late, even when the sender has closed meanwhile.
//     HoldPresent spares new connections, so that a client can go on elsewhere while its old bytes are on their way.
//     HangUp ends the client's side alone.
//   - Latency delays, Throttle narrows.
//
// A Trigger strikes once, on whichever connection comes first:
//
//   - Postgres.CutAtCommit cuts before a commit reaches the server, or after the server has committed and before the
//     client knows.
//   - NATS.CutAfterPub cuts when the server has a message, NATS.CutAtAck when its answer comes back.
//
// NATS.DropMessages swallows messages for the client, such as acknowledgements, until it is stopped.
//
// The cluster of a NATS server tells its clients the addresses of all nodes, and they would go there past the proxy. The proxy therefore
// removes connect_urls from INFO. A cluster needs one proxy per node, all of them in the client's list.
//
// # Invariants
//
//   - Without a fault every byte passes, unchanged and in order, but for connect_urls. The end of a stream is passed
//     on behind its last byte, always as a clean end.
//   - Bytes that were swallowed are never followed by others: such a connection is reset when the blackhole ends.
//   - Protocols are watched at the server's edge: the bytes that a trigger sees are about to reach the server, or
//     were sent by it.
//   - A trigger that has fired kept its promise: after AfterServer the transaction is committed, after BeforeServer
//     it is not. An answer with an error, or ROLLBACK, passes, and the trigger waits on.
//   - After the test nothing is left: no goroutine, no connection, no port.
//
// # Failure handling
//
// A server that cannot be dialled resets the client's connection and is counted. A stream that is not of the protocol, an encrypted one for
// example, passes unchanged and fails the test. So does a port that somebody else took while it was refused.
//
// Limits: COPY through the extended protocol, as no Go driver does it, would miscount PostgreSQL's answers. Bytes
// that the proxy has not yet accepted or read count as not sent.
package faultproxy
