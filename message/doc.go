// Package message is the wire format: the headers of a message of Postrider, and their reading.
//
// # Model
//
// The relay publishes the payload byte for byte, and says in headers which event it is: its id, its sequence and partition, its
// stream and its version there, its type. Generation, epoch and the rest are there where they have a value. FromJetStream reads
// a message of the stream, Parse one from elsewhere. With CloudEvents the headers of that standard's binary mode come beside
// ours. Package codec takes compression off; Parse does it by itself.
//
// # Invariants
//
//   - The names are frozen: programs in other languages read them.
//   - A header's value reads back as it was written: EncodeHeader and EncodeAttribute write what the wire would change as %XX.
//
// # Failures
//
// A message that Postrider cannot have published is a *MalformedError, which names the header. Parse never panics.
package message
