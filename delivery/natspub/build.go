package natspub

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/codec"
	"github.com/postrider/postrider/delivery"
)

// builder makes messages. What it makes depends on nothing but its settings and what is stored of the event, so that an event which is
// published again has the same subject, headers and body, but for its generation, epoch and batch.
type builder struct {
	subject    Subject
	headers    Headers
	compressor *codec.Compressor
	attributes *attributes // nil without CloudEvents
}

func newBuilder(subject Subject, headers Headers, c *codec.Compressor) (builder, error) {
	if err := CheckBody(headers, c); err != nil {
		return builder{}, err
	}
	b := builder{subject: subject, headers: headers, compressor: c}
	if headers.CloudEvents != nil {
		b.attributes = headers.CloudEvents.attributes()
	}
	return b, nil
}

// CheckBody refuses headers that are invalid, or contradict that the publisher compresses bodies; a nil compressor compresses none.
func CheckBody(headers Headers, c *codec.Compressor) error {
	if c != nil {
		for _, name := range headers.Forward {
			if strings.EqualFold(name, codec.Header) {
				return fmt.Errorf("%w: forwarded header %q says how a body is compressed, and the relay compresses bodies itself", ErrConfig, name)
			}
		}
	}
	return headers.Validate()
}

// message makes an event's message, without a reply subject.
func (b builder) message(m delivery.Message) *nats.Msg {
	msg := &nats.Msg{Subject: b.subject.Of(m), Header: b.headers.build(m), Data: m.Event.Payload}
	if b.attributes != nil {
		b.attributes.add(msg.Header, m)
	}
	if body, compressed := b.compressor.Compress(msg.Data); compressed {
		msg.Data = body
		msg.Header[codec.Header] = []string{string(b.compressor.Encoding())}
	}
	return msg
}
