package natspub

import (
	"fmt"
	"net/textproto"
	"strings"

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

// most is about how many headers a message gets, those of its mode included.
func (h Headers) most() int {
	n := 8
	if h.CloudEvents != nil {
		n += 10
	}
	return n + len(h.Forward)
}

// add sets what not every message has.
func (h Headers) add(w *writer, m delivery.Message) {
	e := m.Event
	if seen := m.Generation + m.Era; seen > 0 {
		w.set(HeaderGeneration, w.number(int64(seen)))
	}
	if traceable(e.TraceParent) {
		w.set("traceparent", e.TraceParent)
		if traceable(e.TraceState) {
			w.set("tracestate", e.TraceState)
		}
	}
	if h.Full {
		w.set(HeaderRecordedAt, w.time(e.RecordedAt.UTC()))
	}
	for _, name := range h.Forward {
		value, ok := e.Headers[name]
		switch {
		case !ok:
		case h.CloudEvents != nil && strings.HasPrefix(name, cePrefix):
			if value != "" { // an attribute must not be empty
				w.set(name, ceEncode(value))
			}
		default:
			w.set(name, headerValue(value))
		}
	}
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
