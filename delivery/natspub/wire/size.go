package wire

import (
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
)

// CheckSize compares a message with the limits of server and stream, so that it fails by itself and not with its neighbours. All are in
// bytes, headers included; a limit of 0 or below is none. The error wraps delivery.ErrPayloadTooLarge.
func CheckSize(size int, server int64, stream int, name string) error {
	switch {
	case server > 0 && int64(size) > server:
		return fmt.Errorf("%w: message of %d bytes, the server's max_payload is %d", delivery.ErrPayloadTooLarge, size, server)
	case stream > 0 && size > stream:
		return fmt.Errorf("%w: message of %d bytes, stream %s takes at most %d (max_msg_size, or what its files can hold)", delivery.ErrPayloadTooLarge, size, name, stream)
	}
	return nil
}

// LargePayload bytes are the limit above which payloads are compressed one at a time: compression takes a multiple of memory.
const LargePayload = 1 << 20

// oneAtATime holds up the compression of a large payload behind another's.
type oneAtATime struct{ mu sync.Mutex }

func (o *oneAtATime) lock(size int) (unlock func()) {
	if size <= LargePayload {
		return func() {}
	}
	o.mu.Lock()
	return o.mu.Unlock
}

// largest returns the largest payload that server and stream could take, and names the limit; 0 where compression may shorten it.
func (b Builder) largest(server int64, stream int, name string) (bytes int64, limit string) {
	switch {
	case b.Compressor != nil:
		return 0, ""
	case stream > 0 && (server <= 0 || int64(stream) < server):
		return int64(stream), fmt.Sprintf("stream %s takes messages of at most %d", name, stream)
	default:
		return max(0, server), fmt.Sprintf("the server's max_payload is %d", server)
	}
}

// copies counts the further copies of a payload until it is acknowledged.
func (b Builder) copies() int {
	if b.Compressor != nil {
		return 1
	}
	return 0
}

// capabilities are those under the limits of server and stream, in bytes.
type capabilities struct {
	server int64
	stream int
	can    delivery.Capabilities
}

// Capabilities returns the abilities of a publisher of such messages to a stream that takes most bytes; 0: any. The text of the limit is
// made when a limit changes: the relay asks with each batch.
func (b Builder) Capabilities(nc *nats.Conn, most int, stream string) delivery.Capabilities {
	server, last := nc.MaxPayload(), b.last.Load()
	if last == nil || last.server != server || last.stream != most {
		largest, limit := b.largest(server, most, stream)
		last = &capabilities{server, most, delivery.Capabilities{Largest: largest, Limit: limit, Copies: b.copies()}}
		b.last.Store(last)
	}
	return last.can
}
