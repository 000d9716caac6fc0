package natspub

import (
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// mostInFile is what a stream in files takes of headers and body, in bytes: the server refuses to write a record above 32 MiB
// (rlBadThresh in its filestore.go), and counts that as a failure of the disk, not of the message.
const mostInFile = 32<<20 - 8<<10

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

// Largest implements delivery.Sizer.
func (f *Fenced) Largest() (bytes int64, limit string) {
	return f.build.largest(f.nc.MaxPayload(), f.seen.most(f.cfg.MaxMessageSize), f.cfg.Stream)
}

// Copies implements delivery.Sizer.
func (f *Fenced) Copies() int { return f.build.copies() }

// Largest implements delivery.Sizer.
func (d *Dedupe) Largest() (bytes int64, limit string) {
	return d.build.largest(d.nc.MaxPayload(), d.seen.most(d.cfg.MaxMessageSize), d.cfg.Stream)
}

// Largest implements delivery.Sizer.
func (r *Rehearsal) Largest() (bytes int64, limit string) {
	return r.build.largest(r.nc.MaxPayload(), r.cfg.MaxMessageSize, r.cfg.Stream)
}

// Copies implements delivery.Sizer.
func (r *Rehearsal) Copies() int { return r.build.copies() }

// Copies implements delivery.Sizer.
func (d *Dedupe) Copies() int { return d.build.copies() }
