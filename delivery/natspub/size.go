package natspub

import (
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
)

// mostInFile is what a stream in files takes of headers and body, in bytes: the server refuses to write a record above 32 MiB
// (rlBadThresh in its filestore.go), and counts that as a failure of the disk, not of the message.
const mostInFile = 32<<20 - 8<<10

// A record has at most baseRecord bytes, headers included, and for each event that it names eachRecord, or eachPlace where each has a place
// of its own. One of an event fits into leastRecord.
const (
	baseRecord  = 768
	eachRecord  = 48
	eachPlace   = 160
	leastRecord = 1 << 10
)

// roomForRecord counts the events that a record may name, of so many bytes each, so that server and stream take it.
func (f *Fenced) roomForRecord(each int64) int {
	largest := f.nc.MaxPayload()
	if stream := int64(f.seen.most(f.cfg.MaxMessageSize)); stream > 0 && (largest <= 0 || stream < largest) {
		largest = stream
	}
	if largest <= 0 {
		return MaxBatchEvents
	}
	return int(min(MaxBatchEvents, max(1, (largest-baseRecord)/each)))
}

// checkRecord refuses a record that cannot be sent: the last one is copied as it is, whatever the limits were when it was written.
func (f *Fenced) checkRecord(msg *nats.Msg) error {
	size := headerSize(msg.Header) + len(msg.Data)
	if err := checkSize(size, f.nc.MaxPayload(), f.seen.most(f.cfg.MaxMessageSize), f.cfg.Stream); err != nil {
		return fmt.Errorf("%w: the partition's last record on %s cannot be written again: %w; raise the limit to at least %d", ErrStreamUnfit, msg.Subject, err, size)
	}
	return nil
}

// checkSize compares a message with the limits of server and stream, so that it
// fails by itself and not with its neighbours.
func checkSize(size int, server int64, stream int, name string) error {
	switch {
	case server > 0 && int64(size) > server:
		return fmt.Errorf("%w: message of %d bytes, the server's max_payload is %d", delivery.ErrPayloadTooLarge, size, server)
	case stream > 0 && size > stream:
		return fmt.Errorf("%w: message of %d bytes, stream %s takes at most %d (max_msg_size, or what its files can hold)", delivery.ErrPayloadTooLarge, size, name, stream)
	}
	return nil
}

// check compares a message of about that size with the limits: one that may be too
// large is made, to know its size. Headers that cannot be sent are refused.
func (r *fencedRun) check(m delivery.Message, b body, about int) error {
	if err := r.build.Headers.check(m.Event); err != nil {
		return err
	}
	limits := func(size int) error {
		return checkSize(size, r.nc.MaxPayload(), r.seen.most(r.cfg.MaxMessageSize), r.cfg.Stream)
	}
	if limits(about) == nil {
		return nil
	}
	r.tight = true
	w := r.writers.get()
	defer r.writers.put(w)
	more := batchHeaderSize
	if r.steps() {
		more = r.singleHeaderSize()
	}
	return limits(headerSize(w.message(m, b).Header) + len(b.data) + more)
}

// batchHeaderSize is about what the headers of a batch add to a message, in bytes.
const batchHeaderSize = 100

// singleHeaderSize is about what the expectation of a message that is stored by itself adds to it, in bytes: more than those of a batch.
func (r *fencedRun) singleHeaderSize() int {
	const names, sequence = len(jetstream.ExpectedLastSubjSeqHeader + jetstream.ExpectedLastSubjSeqSubjHeader + jetstream.ExpectedStreamHeader), 20
	return names + 3*len(": \r\n") + sequence + len(r.subject) + len(r.cfg.Stream)
}

// LargestMessage is the largest message that a stream of that configuration takes, headers and body, in bytes; 0: any.
func LargestMessage(s jetstream.StreamConfig) int {
	switch largest := int(s.MaxMsgSize); {
	case s.Storage == jetstream.MemoryStorage:
		return max(0, largest)
	case largest > 0:
		return min(largest, mostInFile)
	default:
		return mostInFile
	}
}

// largePayload is above which payloads are compressed one at a time, in bytes: the memory that it takes is a multiple.
const largePayload = 1 << 20

// oneAtATime holds up who compresses a large payload while another one is.
type oneAtATime struct{ mu sync.Mutex }

func (o *oneAtATime) lock(size int) (unlock func()) {
	if size <= largePayload {
		return func() {}
	}
	o.mu.Lock()
	return o.mu.Unlock
}

// largest is the largest payload that server and stream could take, and whose limit that is; 0 where it may become shorter.
func (b builder) largest(server int64, stream int, name string) (bytes int64, limit string) {
	switch {
	case b.Compressor != nil:
		return 0, ""
	case stream > 0 && (server <= 0 || int64(stream) < server):
		return int64(stream), fmt.Sprintf("stream %s takes messages of at most %d", name, stream)
	default:
		return max(0, server), fmt.Sprintf("the server's max_payload is %d", server)
	}
}

// copies is how many more copies of a payload are held until it is acknowledged.
func (b builder) copies() int {
	if b.Compressor != nil {
		return 1
	}
	return 0
}

// capabilities are those of a publisher of such messages.
func (b builder) capabilities(nc *nats.Conn, most int, stream string) delivery.Capabilities {
	largest, limit := b.largest(nc.MaxPayload(), most, stream)
	return delivery.Capabilities{Largest: largest, Limit: limit, Copies: b.copies()}
}

// Capabilities implements delivery.Publisher.
func (f *Fenced) Capabilities() delivery.Capabilities {
	can := f.build.capabilities(f.nc, f.seen.most(f.cfg.MaxMessageSize), f.cfg.Stream)
	can.Steps = f.steps()
	return can
}

// Capabilities implements delivery.Publisher.
func (r *Rehearsal) Capabilities() delivery.Capabilities {
	return r.build.capabilities(r.nc, r.cfg.MaxMessageSize, r.cfg.Stream)
}

// Capabilities says what server and stream can do now.
func (s *Shadow) Capabilities() delivery.Capabilities {
	return s.build.capabilities(s.nc, s.cfg.MaxMessageSize, s.cfg.Stream)
}
