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
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/partition"
)

// ReadMessage is ParseMessage of a message as a consumer gets it.
func ReadMessage(msg jetstream.Msg) (Message, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Message{}, fmt.Errorf("message without metadata: %w", err)
	}
	return ParseMessage(msg.Subject(), msg.Headers(), msg.Data(), meta.Sequence.Stream)
}

// ErrHeader is wrapped by every complaint of ParseMessage.
var ErrHeader = errors.New("not an outbox message")

// Message is a message of the stream as a subscriber reads it.
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
	// StreamSequence is the message's place in the JetStream stream; 0 where it is not known (a core subscription).
	StreamSequence uint64
	BodyHash       uint64
	// ReceivedAt is the time of reception. Receive sets it where it is zero.
	ReceivedAt time.Time
}

// HashBody returns the hash by which bodies are compared (xxHash64).
func HashBody(body []byte) uint64 { return xxhash.Sum64(body) }

// ErrBody is returned for a compressed body that cannot be read.
var ErrBody = errors.New("unreadable body")

// ParseMessage reads the headers of a published event and hashes its body, from which it takes the relay's compression off. Errors name
// the message's place; they wrap ErrHeader and name the header that is missing or wrong, or wrap ErrBody. ReceivedAt is left zero.
func ParseMessage(subject string, header nats.Header, body []byte, streamSeq uint64) (Message, error) {
	parsed, err := message.ParseEncoded(subject, streamSeq, header, body)
	if err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	if parsed, err = parsed.Decode(); err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrBody, err)
	}
	return Message{
		EventID: parsed.EventID, Sequence: parsed.Sequence, Partition: partition.ID(parsed.Partition),
		Stream: parsed.Stream, StreamVersion: parsed.Version, Type: parsed.Type,
		Epoch: parsed.Epoch, Generation: int32(parsed.Generation), MessageID: header.Get(nats.MsgIdHdr),
		StreamSequence: streamSeq, BodyHash: HashBody(parsed.Payload),
	}, nil
}

// messageIDFits reports whether a Nats-Msg-Id is one the relay gives this event: its UUID, with ":generation" appended above 0. That is the
// row's generation; a resize raises the header's alone.
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

// clip keeps hostile header values from flooding an error text.
func clip(s string) string {
	const longest = 64
	if len(s) > longest {
		return s[:longest] + "…"
	}
	return s
}
