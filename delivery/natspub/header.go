package natspub

import (
	"fmt"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
)

// The headers of a message.
const (
	HeaderEventID       = "Outbox-Event-Id"
	HeaderSequence      = "Outbox-Sequence"
	HeaderPartition     = "Outbox-Partition"
	HeaderStream        = "Outbox-Stream"
	HeaderStreamVersion = "Outbox-Stream-Version"
	HeaderType          = "Outbox-Type"
	HeaderGeneration    = "Outbox-Generation"
	HeaderEpoch         = "Outbox-Epoch"
	HeaderRecordedAt    = "Outbox-Recorded-At"
)

// Headers says which headers a message carries beyond the ones it always has.
type Headers struct {
	// Full adds Outbox-Recorded-At.
	Full bool
	// Forward names the producer's own headers that are passed on. Names that
	// begin with Nats- or Outbox- are refused. With CloudEvents names that begin with
	// ce- are extension attributes; those that the relay sets are refused.
	Forward []string
	// CloudEvents, where given, adds the headers of a CloudEvent.
	CloudEvents *CloudEvents
}

// Validate refuses names that are not header names or are reserved.
func (h Headers) Validate() error {
	for _, name := range h.Forward {
		err := checkHeaderName(name)
		if err == nil && h.CloudEvents != nil {
			err = checkExtension(name)
		}
		if err != nil {
			return fmt.Errorf("%w: forwarded header %q: %w", ErrConfig, name, err)
		}
	}
	if h.CloudEvents != nil {
		return h.CloudEvents.Validate()
	}
	return nil
}

func checkHeaderName(name string) error {
	lower := strings.ToLower(name)
	switch {
	case name == "":
		return fmt.Errorf("a name must not be empty")
	case strings.HasPrefix(lower, "nats-"), strings.HasPrefix(lower, "outbox-"):
		return fmt.Errorf("names beginning with Nats- and Outbox- are reserved")
	}
	for i := range len(name) {
		c := name[i]
		if !plain(c) && !strings.ContainsRune("!#$%&'*+.^`|~", rune(c)) {
			return fmt.Errorf("%q may not stand in a header name", c)
		}
	}
	return nil
}

// messageID is the event's UUID, with the generation behind it when a requeue
// or replay raised it.
func messageID(m delivery.Message) string {
	if m.Generation == 0 {
		return m.Event.ID.String()
	}
	return m.Event.ID.String() + ":" + strconv.Itoa(m.Generation)
}

// most is about how many headers a message gets, those of its mode included.
func (h Headers) most() int {
	n := 8
	if h.CloudEvents != nil {
		n += 10
	}
	return n + len(h.Forward)
}

// build makes the headers of a message.
func (h Headers) build(m delivery.Message) nats.Header {
	e := m.Event
	header := make(nats.Header, h.most())
	values := [...]string{
		e.ID.String(), strconv.FormatInt(m.Sequence, 10), strconv.Itoa(int(m.Partition)), headerValue(m.Stream),
		strconv.FormatInt(e.StreamVersion, 10), headerValue(e.Type),
	}
	for i, name := range [...]string{HeaderEventID, HeaderSequence, HeaderPartition, HeaderStream, HeaderStreamVersion, HeaderType} {
		header[name] = values[i : i+1 : i+1]
	}
	if seen := m.Generation + m.Era; seen > 0 {
		header[HeaderGeneration] = []string{strconv.Itoa(seen)}
	}
	if traceable(e.TraceParent) {
		header["traceparent"] = []string{e.TraceParent}
		if traceable(e.TraceState) {
			header["tracestate"] = []string{e.TraceState}
		}
	}
	if h.Full {
		header[HeaderRecordedAt] = []string{e.RecordedAt.UTC().Format(time.RFC3339Nano)}
	}
	for _, name := range h.Forward {
		value, ok := e.Headers[name]
		switch {
		case !ok:
		case h.CloudEvents != nil && strings.HasPrefix(name, cePrefix):
			if value != "" { // an attribute must not be empty
				header[name] = []string{ceEncode(value)}
			}
		default:
			header[name] = []string{headerValue(value)}
		}
	}
	return header
}

// traceLimit is the longest trace context that is passed on, in bytes; the outbox
// stores no longer one.
const traceLimit = 1024

// traceable tells whether a stored trace context can be passed on as it is. An
// events relation of another's making may hold anything; a trace is not worth the
// message.
func traceable(value string) bool {
	return value != "" && len(value) <= traceLimit && headerValue(value) == value
}

// headerValue makes a value that reads back as it was written: control
// characters and spaces at the ends become %XX, as the wire format would
// change them or read them as a new header.
func headerValue(value string) string {
	trimmed := textproto.TrimString(value)
	if len(trimmed) == len(value) && !strings.ContainsFunc(value, isControl) {
		return value
	}
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		if isControl(rune(c)) || c == ' ' && (i == 0 || i == len(value)-1) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

// headerSize is the length of the headers on the wire, in bytes.
func headerSize(h nats.Header) int {
	size := len("NATS/1.0\r\n\r\n")
	for name, values := range h {
		for _, v := range values {
			size += len(name) + len(": \r\n") + len(v)
		}
	}
	return size
}
