package message

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/message/codec"
)

// Message is an event as it came out of the stream.
type Message struct {
	// EventID is the event's identity.
	EventID uuid.UUID
	// Stream is the key within which order holds, Version the event's place in it, 1 or more.
	Stream  string
	Version int64
	Type    string
	// Sequence is the event's sequence in the producer's database, Partition its partition there.
	Sequence  int64
	Partition int
	// Generation is above 0 for requeued or replayed events, and for all after a resize.
	Generation int
	// Epoch is that of the publisher's lease; 0 where the message has none.
	Epoch int64
	// RecordedAt is the time of the event's append; zero unless the workers run with --headers full.
	RecordedAt time.Time
	// TraceParent and TraceState are the W3C trace context; empty where the producer stored none.
	TraceParent string
	TraceState  string
	// CorrelationID names the whole conversation, CausationID the event's cause; empty where the producer stored none.
	CorrelationID string
	CausationID   string
	// Subject and StreamSequence locate the message in JetStream; empty and 0 for one that was built by hand.
	Subject        string
	StreamSequence uint64
	// StoredAt is JetStream's time of storage; zero where unknown.
	StoredAt time.Time `json:"-"`
	// Header holds all headers, without a Content-Encoding that was taken off. Payload is the body as the producer wrote it, byte for byte.
	Header  nats.Header
	Payload []byte
}

// FromJetStream reads a message of JetStream. It returns a *MalformedError, and never panics, for one that Postrider cannot have published.
func FromJetStream(msg jetstream.Msg) (Message, error) {
	var sequence uint64
	var stored time.Time
	if meta, err := msg.Metadata(); err == nil {
		sequence, stored = meta.Sequence.Stream, meta.Timestamp
	}
	m, err := Parse(msg.Subject(), sequence, msg.Headers(), msg.Data())
	if err != nil {
		return Message{}, err
	}
	m.StoredAt = stored
	return m, nil
}

// Parse reads headers and body. sequence is the message's place in the JetStream stream, 0 where unknown. It takes off a
// compression that package codec knows, and the header that names it; a compressed body may become codec.DefaultLimit long.
func Parse(subject string, sequence uint64, header nats.Header, payload []byte) (Message, error) {
	m, err := ParseEncoded(subject, sequence, header, payload)
	if err != nil {
		return Message{}, err
	}
	return m.Decode()
}

// ParseEncoded is Parse, but leaves a compressed body and its header as they are, for Decode.
func ParseEncoded(subject string, sequence uint64, header nats.Header, payload []byte) (Message, error) {
	p := parser{header: header}
	m := Message{
		Subject: subject, StreamSequence: sequence, Header: header, Payload: payload,
		Stream:        p.text(HeaderStream),
		Type:          p.text(HeaderType),
		Version:       p.number(HeaderStreamVersion, 1, 64, true),
		Sequence:      p.number(HeaderSequence, 1, 64, true),
		Partition:     int(p.number(HeaderPartition, 0, 16, true)),
		Generation:    int(p.number(HeaderGeneration, 0, 32, false)),
		Epoch:         p.number(HeaderEpoch, 0, 64, false),
		TraceParent:   header.Get(HeaderTraceParent),
		TraceState:    header.Get(HeaderTraceState),
		CorrelationID: header.Get(HeaderCorrelationID),
		CausationID:   header.Get(HeaderCausationID),
	}
	var err error
	if m.EventID, err = uuid.Parse(header.Get(HeaderEventID)); err != nil {
		p.refuse(HeaderEventID, "must be a UUID")
	}
	if at := header.Get(HeaderRecordedAt); at != "" {
		m.RecordedAt, err = time.Parse(time.RFC3339Nano, at)
		_, odd := m.RecordedAt.MarshalText() // refuses zones that Parse takes
		if m.RecordedAt = m.RecordedAt.UTC(); err != nil || odd != nil || outOfYears(m.RecordedAt) {
			p.refuse(HeaderRecordedAt, "must be a time as in RFC 3339, in the years 1 to 9999 (UTC)")
		}
	}
	if name := withNUL(header); name != "" {
		p.refuse(name, "must not hold NUL bytes")
	}
	if p.first != nil {
		p.first.Subject, p.first.Sequence = subject, sequence
		return Message{}, p.first
	}
	return m, nil
}

// Decode is DecodeUpTo codec.DefaultLimit.
func (m Message) Decode() (Message, error) { return m.DecodeUpTo(codec.DefaultLimit) }

// DecodeUpTo takes the compression off; limit is the longest body, in bytes. An encoding that no relay writes is the producer's own and
// stays. A body that does not fit its encoding, or becomes longer, is a *MalformedError.
func (m Message) DecodeUpTo(limit int64) (Message, error) {
	body, err := codec.Body(m.Header, m.Payload, limit)
	switch {
	case errors.Is(err, codec.ErrEncoding):
		return m, nil
	case err != nil:
		return Message{}, &MalformedError{Subject: m.Subject, Sequence: m.StreamSequence, Header: codec.Header, Reason: "does not fit the body: " + err.Error()}
	}
	for name := range m.Header {
		if strings.EqualFold(name, codec.Header) {
			m.Header = maps.Clone(m.Header) // it is the caller's
			delete(m.Header, name)
			break
		}
	}
	m.Payload = body
	return m, nil
}

// parser keeps the first fault.
type parser struct {
	header nats.Header
	first  *MalformedError
}

func (p *parser) refuse(name, reason string) {
	if p.first == nil {
		p.first = &MalformedError{Header: name, Reason: reason}
	}
}

func (p *parser) text(name string) string {
	values := p.header.Values(name)
	if len(values) != 1 || values[0] == "" {
		p.refuse(name, "must be there once and not be empty")
		return ""
	}
	return values[0]
}

func (p *parser) number(name string, least int64, bits int, needed bool) int64 {
	text := p.header.Get(name)
	if text == "" && !needed {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil || n < least {
		p.refuse(name, fmt.Sprintf("must be a whole number of at least %d in %d bits", least, bits))
		return 0
	}
	return n
}

// outOfYears reports whether JSON cannot write a time; producers cannot append it either.
func outOfYears(at time.Time) bool {
	year := at.UTC().Year()
	return year < 1 || year > 9999
}

// withNUL returns the name of a header with a NUL byte, which neither relays nor PostgreSQL's texts hold; "" without any.
func withNUL(header nats.Header) string {
	for name, values := range header {
		if strings.ContainsRune(name+strings.Join(values, ""), 0) {
			return strings.ReplaceAll(name, "\x00", "")
		}
	}
	return ""
}

// Check refuses a message built by hand that lacks its identity, or holds values that cannot be stored, with a *MalformedError.
func (m Message) Check() error {
	refuse := func(name, reason string) error {
		return &MalformedError{Subject: m.Subject, Sequence: m.StreamSequence, Header: name, Reason: reason}
	}
	switch {
	case m.EventID == uuid.Nil:
		return refuse(HeaderEventID, "must not be zero")
	case m.Stream == "" || len(m.Stream) > MaxKey:
		return refuse(HeaderStream, fmt.Sprintf("must have 1 to %d bytes", MaxKey))
	case strings.ContainsRune(m.Stream, 0) || !utf8.ValidString(m.Stream):
		return refuse(HeaderStream, "must be text without NUL bytes")
	case strings.ContainsRune(m.Subject, 0) || !utf8.ValidString(m.Subject):
		return &MalformedError{Subject: m.Subject, Sequence: m.StreamSequence, Header: "(subject)", Reason: "must be text without NUL bytes"}
	case m.Version < 1:
		return refuse(HeaderStreamVersion, "must be at least 1")
	case m.Partition < 0 || m.Partition > math.MaxInt16:
		return refuse(HeaderPartition, fmt.Sprintf("must be 0 to %d", math.MaxInt16))
	case m.Generation < 0 || m.Generation > math.MaxInt32:
		return refuse(HeaderGeneration, fmt.Sprintf("must be 0 to %d", math.MaxInt32))
	case m.StreamSequence > math.MaxInt64:
		return refuse("(stream sequence)", "must have 63 bits")
	case strings.ContainsRune(m.Type+m.TraceParent+m.TraceState+m.CorrelationID+m.CausationID, 0):
		return refuse(HeaderType, "must not hold NUL bytes, nor may trace context, correlation or causation")
	case outOfYears(m.RecordedAt):
		return refuse(HeaderRecordedAt, "must be in the years 1 to 9999 (UTC)")
	}
	if name := withNUL(m.Header); name != "" {
		return refuse(name, "must not hold NUL bytes")
	}
	return nil
}

// MaxKey is the longest name of a stream or sender, in bytes; PostgreSQL's indexes bear little more.
const MaxKey = 2000
