package natspub

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/codec"
)

// Shape says how an event becomes a message. All that publish events of one outbox should be given the same, replays and rehearsals
// included: an event that is published again then has the same subject, headers and body.
type Shape struct {
	// Subject is the template of subjects. Defaults to DefaultSubject.
	Subject Subject
	// Headers says which headers messages carry beyond the usual ones.
	Headers Headers
	// Compressor compresses the bodies; nil leaves them as they are.
	Compressor *codec.Compressor
}

func (s Shape) withDefaults() (Shape, error) {
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

// builder makes messages, for every publisher. What it makes depends on nothing but its shape and what is stored of the event, so that an
// event which is published again has the same subject, headers and body, but for its generation, epoch and batch.
type builder struct {
	Shape

	attributes *attributes // nil without CloudEvents
	large      *oneAtATime
}

func newBuilder(shape Shape) (builder, error) {
	shape, err := shape.withDefaults()
	if err == nil {
		err = shape.Validate()
	}
	if err != nil {
		return builder{}, err
	}
	b := builder{Shape: shape, large: &oneAtATime{}}
	if shape.Headers.CloudEvents != nil {
		b.attributes = shape.Headers.CloudEvents.attributes()
	}
	return b, nil
}

// body is what a message carries: the payload, or the payload compressed.
type body struct {
	data     []byte
	encoding string // empty as it is
}

const headerEncoding = codec.Header

func (b builder) body(m delivery.Message) body {
	if b.Compressor != nil && b.encoded(m.Event) {
		return body{data: m.Event.Payload}
	}
	if b.Compressor != nil {
		defer b.large.lock(len(m.Event.Payload))()
	}
	if data, compressed := b.Compressor.Compress(m.Event.Payload); compressed {
		return body{data, string(b.Compressor.Encoding())}
	}
	return body{data: m.Event.Payload}
}

// encoded tells whether the producer encoded the body itself, and the message says how.
func (b builder) encoded(e *delivery.Event) bool {
	for name := range e.Headers {
		if strings.EqualFold(name, headerEncoding) && b.Headers.sends(e, name) {
			return true
		}
	}
	return false
}

// message makes a message of its own.
func (b builder) message(m delivery.Message) *nats.Msg { return b.writer().message(m, b.body(m)) }

// bound is about the most that a message's headers take, in bytes.
func (b builder) bound(m delivery.Message) int {
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
