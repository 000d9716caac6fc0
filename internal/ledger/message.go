package ledger

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/codec"
	"github.com/postrider/postrider/partition"
)

// The headers of a published event.
const (
	headerEventID       = "Outbox-Event-Id"
	headerSequence      = "Outbox-Sequence"
	headerPartition     = "Outbox-Partition"
	headerStream        = "Outbox-Stream"
	headerStreamVersion = "Outbox-Stream-Version"
	headerType          = "Outbox-Type"
	headerEpoch         = "Outbox-Epoch"
	headerGeneration    = "Outbox-Generation"
	headerMessageID     = nats.MsgIdHdr
)

// ErrHeader is wrapped by every complaint of ParseMessage.
var ErrHeader = errors.New("not an outbox message")

// Message is what a subscriber learns from one message of the stream.
type Message struct {
	EventID       uuid.UUID
	Sequence      int64 // global sequence, from 1
	Partition     partition.ID
	Stream        string
	StreamVersion int64 // from 1
	Type          string
	Epoch         int64  // 0 where the header is absent
	Generation    int32  // 0 where the header is absent
	MessageID     string // "" where the header is absent
	// StreamSequence is the message's place in the JetStream stream; 0 where
	// it is not known (a core subscription).
	StreamSequence uint64
	BodyHash       uint64
	// ReceivedAt is the time of reception. Receive sets it where it is zero.
	ReceivedAt time.Time
}

// HashBody is the hash by which bodies are compared (xxHash64).
func HashBody(body []byte) uint64 { return xxhash.Sum64(body) }

// ErrBody is returned for a compressed body that cannot be read.
var ErrBody = errors.New("unreadable body")

// ParseMessage reads the headers of a published event and hashes its body, from
// which it takes the relay's compression off. Errors wrap ErrHeader and name the
// header that is missing or wrong, or wrap ErrBody. ReceivedAt is left zero.
func ParseMessage(header nats.Header, body []byte, streamSeq uint64) (Message, error) {
	plain, err := codec.Body(header, body, 0)
	switch {
	case errors.Is(err, codec.ErrEncoding): // a producer's own, which was passed on
		plain = body
	case err != nil:
		return Message{}, fmt.Errorf("%w: %w", ErrBody, err)
	}
	m := Message{StreamSequence: streamSeq, BodyHash: HashBody(plain)}
	id, err := required(header, headerEventID)
	if err != nil {
		return Message{}, err
	}
	if m.EventID, err = uuid.Parse(id); err != nil {
		return Message{}, fmt.Errorf("%w: header %s: %q is not a UUID", ErrHeader, headerEventID, clip(id))
	}
	if m.Sequence, err = number(header, headerSequence, 1, 64, true); err != nil {
		return Message{}, err
	}
	part, err := number(header, headerPartition, 0, 16, true)
	if err != nil {
		return Message{}, err
	}
	m.Partition = partition.ID(part)
	if m.Stream, err = required(header, headerStream); err != nil {
		return Message{}, err
	}
	if m.StreamVersion, err = number(header, headerStreamVersion, 1, 64, true); err != nil {
		return Message{}, err
	}
	if m.Type, err = required(header, headerType); err != nil {
		return Message{}, err
	}
	if m.Epoch, err = number(header, headerEpoch, 0, 64, false); err != nil {
		return Message{}, err
	}
	generation, err := number(header, headerGeneration, 0, 32, false)
	if err != nil {
		return Message{}, err
	}
	m.Generation = int32(generation)
	m.MessageID = header.Get(headerMessageID)
	return m, nil
}

// messageIDFits reports whether a Nats-Msg-Id is one the relay gives this event:
// its UUID, with ":generation" appended above 0. That is the row's generation; a
// resize raises the header's alone.
func (m *Message) messageIDFits() bool {
	const uuidLength = 36
	if len(m.MessageID) < uuidLength {
		return false
	}
	id, err := uuid.Parse(m.MessageID[:uuidLength])
	if err != nil || id != m.EventID {
		return false
	}
	suffix, raised := strings.CutPrefix(m.MessageID[uuidLength:], ":")
	if !raised {
		return suffix == ""
	}
	row, err := strconv.ParseUint(suffix, 10, 31)
	return err == nil && row > 0 && row <= uint64(max(0, m.Generation)) && suffix == strconv.FormatUint(row, 10)
}

func required(header nats.Header, name string) (string, error) {
	values := header[name]
	if len(values) == 0 || values[0] == "" {
		return "", fmt.Errorf("%w: header %s is missing", ErrHeader, name)
	}
	return values[0], nil
}

func number(header nats.Header, name string, lowest int64, bits int, must bool) (int64, error) {
	values := header[name]
	if len(values) == 0 {
		if must {
			return 0, fmt.Errorf("%w: header %s is missing", ErrHeader, name)
		}
		return 0, nil
	}
	n, err := strconv.ParseInt(values[0], 10, bits)
	if err != nil || n < lowest {
		return 0, fmt.Errorf("%w: header %s: %q is not a whole number from %d to %d",
			ErrHeader, name, clip(values[0]), lowest, uint64(1)<<(bits-1)-1)
	}
	return n, nil
}

// clip keeps hostile header values from flooding an error text.
func clip(s string) string {
	const longest = 64
	if len(s) > longest {
		return s[:longest] + "…"
	}
	return s
}
