package natspub

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/codec"
	"github.com/postrider/postrider/delivery"
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
}

func newBuilder(shape Shape) (builder, error) {
	shape, err := shape.withDefaults()
	if err == nil {
		err = shape.Validate()
	}
	if err != nil {
		return builder{}, err
	}
	b := builder{Shape: shape}
	if shape.Headers.CloudEvents != nil {
		b.attributes = shape.Headers.CloudEvents.attributes()
	}
	return b, nil
}

// message makes an event's message, without a reply subject.
func (b builder) message(m delivery.Message) *nats.Msg {
	msg := &nats.Msg{Subject: b.Subject.Of(m), Header: b.Headers.build(m), Data: m.Event.Payload}
	if b.attributes != nil {
		b.attributes.add(msg.Header, m)
	}
	if body, compressed := b.Compressor.Compress(msg.Data); compressed {
		msg.Data = body
		msg.Header[codec.Header] = []string{string(b.Compressor.Encoding())}
	}
	return msg
}
