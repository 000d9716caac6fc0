package wire

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/codec"
)

// Shape turns events into messages. All publishers of one outbox should have the same one, replays and rehearsals included: an event that
// is published again then has the same subject, headers and body.
type Shape struct {
	// Subject is the template of subjects. Defaults to DefaultSubject.
	Subject Subject
	// Headers chooses the headers beside the usual ones.
	Headers Headers
	// Compressor compresses the bodies; nil leaves them as they are.
	Compressor *codec.Compressor
}

// WithDefaults gives a shape without a subject the usual one.
func (s Shape) WithDefaults() (Shape, error) {
	if s.Subject.text != "" {
		return s, nil
	}
	var err error
	s.Subject, err = ParseSubject(DefaultSubject)
	return s, err
}

// Validate refuses headers that are invalid, or contradict that bodies are compressed.
func (s Shape) Validate() error {
	if s.Compressor != nil {
		for _, name := range s.Headers.Forward {
			if strings.EqualFold(name, codec.Header) {
				return fmt.Errorf("%w: forwarded header %q says how a body is compressed, and the relay compresses bodies itself", ErrConfig, name)
			}
		}
	}
	return s.Headers.Validate()
}

// Builder makes messages, for every publisher. They depend on its shape and the stored event alone: an event that is published again has
// the same subject, headers and body, but for generation, epoch and batch.
type Builder struct {
	Shape

	attributes *attributes // nil without CloudEvents
	large      *oneAtATime
	last       *atomic.Pointer[capabilities]
}

// NewBuilder refuses a shape that is invalid; the error wraps ErrConfig.
func NewBuilder(shape Shape) (Builder, error) {
	shape, err := shape.WithDefaults()
	if err == nil {
		err = shape.Validate()
	}
	if err != nil {
		return Builder{}, err
	}
	b := Builder{Shape: shape, large: &oneAtATime{}, last: &atomic.Pointer[capabilities]{}}
	if shape.Headers.CloudEvents != nil {
		b.attributes = shape.Headers.CloudEvents.attributes()
	}
	return b, nil
}

// Content is a message's body: the payload, or the payload compressed.
type Content struct {
	Data     []byte
	encoding string // empty as it is
}

const headerEncoding = codec.Header

// Body compresses the payload where the shape says so, large ones one at a time.
func (b Builder) Body(m delivery.Message) Content {
	if b.Compressor != nil && b.encoded(m.Event) {
		return Content{Data: m.Event.Payload}
	}
	if b.Compressor != nil {
		defer b.large.lock(len(m.Event.Payload))()
	}
	if data, compressed := b.Compressor.Compress(m.Event.Payload); compressed {
		return Content{data, string(b.Compressor.Encoding())}
	}
	return Content{Data: m.Event.Payload}
}

// encoded reports whether the producer encoded the body, and a header names the encoding.
func (b Builder) encoded(e *delivery.Event) bool {
	for name := range e.Headers {
		if strings.EqualFold(name, headerEncoding) && b.Headers.sends(e, name) {
			return true
		}
	}
	return false
}

// Message makes a message of its own.
func (b Builder) Message(m delivery.Message) *nats.Msg { return b.writer().Message(m, b.Body(m)) }

// Bound estimates the largest size of a message's headers, in bytes.
func (b Builder) Bound(m delivery.Message) int {
	const names, encoded = 420, 3
	e := m.Event
	size := names + encoded*(len(m.Stream)+len(e.Type)) + len(e.TraceParent) + len(e.TraceState) +
		encoded*(len(e.CorrelationID)+len(e.CausationID))
	for name, value := range e.Headers {
		size += len(name) + encoded*len(value) + len(": \r\n")
	}
	if b.attributes != nil {
		size += names + encoded*(2*len(m.Stream)+len(e.Type)+len(e.CorrelationID)+len(e.CausationID)+len(e.Headers[message.HeaderCEDataSchema])) + len(b.attributes.source)
	}
	return size
}
