package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/headername"
	"github.com/postrider/postrider/message"
)

// Headers chooses a message's headers beyond the ones it always has.
type Headers struct {
	// Full adds Outbox-Recorded-At.
	Full bool
	// Minimal leaves out producers' headers, correlation and causation, except those that Forward names.
	Minimal bool
	// Forward names those of the producer's own headers that are sent; without names, and without Minimal, all are. Names that begin with
	// Nats- or Outbox-, Status, Description and KV-Operation are refused. With CloudEvents names that begin with ce- are extension
	// attributes; the relay's own are refused.
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
	if name == "" {
		return fmt.Errorf("a name must not be empty")
	} else if problem := headername.Reserved(name); problem != "" {
		return fmt.Errorf("the name %s", problem)
	}
	for i := range len(name) {
		c := name[i]
		if !plain(c) && !strings.ContainsRune("!#$%&'*+.^`|~", rune(c)) {
			return fmt.Errorf("%q may not stand in a header name", c)
		}
	}
	return nil
}

// most estimates a message's number of headers, those of its mode included.
func (h Headers) most() int {
	n := 8
	if h.CloudEvents != nil {
		n += 10
	}
	return n + len(h.Forward)
}

// add sets the optional headers.
func (h Headers) add(w *Writer, m delivery.Message) {
	e := m.Event
	if seen := m.Generation + m.Era; seen > 0 {
		w.Set(message.HeaderGeneration, w.number(int64(seen)))
	}
	if traceable(e.TraceParent) {
		w.Set(message.HeaderTraceParent, e.TraceParent)
		if traceable(e.TraceState) {
			w.Set(message.HeaderTraceState, e.TraceState)
		}
	}
	if h.Full {
		if at := rfc3339(w, e.RecordedAt); at != "" {
			w.Set(message.HeaderRecordedAt, at)
		}
	}
	if !h.Minimal {
		if e.CorrelationID != "" {
			w.Set(message.HeaderCorrelationID, message.EncodeHeader(e.CorrelationID))
		}
		if e.CausationID != "" {
			w.Set(message.HeaderCausationID, message.EncodeHeader(e.CausationID))
		}
	}
	for name, value := range e.Headers {
		switch {
		case !h.sends(e, name):
		case h.CloudEvents != nil && strings.HasPrefix(name, message.CEPrefix):
			if value != "" { // an attribute must not be empty
				w.Set(name, message.EncodeAttribute(value))
			}
		default:
			w.Set(name, message.EncodeHeader(value))
		}
	}
}

// all reports whether the producer's own headers are sent without being named.
func (h Headers) all() bool { return !h.Minimal && len(h.Forward) == 0 }

// sends reports whether one of the event's own headers is sent: the relay's own are not repeated, and those that make a CloudEvent
// invalid are left out.
func (h Headers) sends(e *delivery.Event, name string) bool {
	switch {
	case !h.all():
		return slices.Contains(h.Forward, name)
	case strings.EqualFold(name, message.HeaderTraceParent), strings.EqualFold(name, message.HeaderTraceState):
		return !traceable(e.TraceParent)
	default:
		return h.CloudEvents == nil || checkExtension(name) == nil
	}
}

// Check refuses an event whose own headers cannot be sent under their names: one that no append function wrote.
func (h Headers) Check(e *delivery.Event) error {
	if len(e.Headers) == 0 || !h.all() {
		return nil
	}
	for name := range e.Headers {
		if err := checkHeaderName(name); err != nil {
			return fmt.Errorf("%w: header %q: %w", ErrHeader, name, err)
		}
	}
	return nil
}

// traceLimit is the longest trace context that is passed on, in bytes; the outbox stores no longer one.
const traceLimit = 1024

// traceable reports whether a stored trace context can be passed on as it is. A foreign events relation may hold anything; a trace is not
// worth the message.
func traceable(value string) bool {
	return value != "" && len(value) <= traceLimit && message.EncodeHeader(value) == value
}

// HeaderSize is the length of the headers on the wire, in bytes.
func HeaderSize(h nats.Header) int {
	size := len("NATS/1.0\r\n\r\n")
	for name, values := range h {
		for _, v := range values {
			size += len(name) + len(": \r\n") + len(v)
		}
	}
	return size
}
