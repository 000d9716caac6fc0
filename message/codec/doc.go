// Package codec compresses the bodies of messages and takes the compression off again. Relays use the first half, consumers the second.
//
// # Model
//
// A message whose body is compressed says so in its header Content-Encoding: zstd, s2 (the block format) or gzip. A message without that
// header is as its producer wrote it. Consumers call Body with the headers and the body of whatever they receive:
//
//	body, err := codec.Body(msg.Headers(), msg.Data(), 0)
//
// # Invariants
//
//   - The same bytes are compressed to the same bytes, by every process that runs the
//     same release, however often and beside whatever else: a message that is
//     published again is the message that was published. zstd and gzip give them on
//     every architecture; s2 gives each architecture its own.
//   - A body that compression would not make shorter stays as it is.
//   - Decompressing never takes more memory than about twice the limit, whatever the
//     body claims.
//
// # Failures
//
// Decompress and Body return errors that wrap ErrEncoding (a name that is not known), ErrCorrupt (damaged, cut off, or something behind the
// end) or ErrTooLarge. None of them heals by trying again.
package codec
