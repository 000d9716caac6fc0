package unseen

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/headername"
)

// codeNoMessage is JSNoMessageFoundErr of the server's errors.json.
const codeNoMessage = 10037

// Next returns the first message of the filter behind a position if clients do not show it; else nil.
func Next(ctx context.Context, js jetstream.JetStream, stream, filter string, after uint64) (*Message, error) {
	request, err := json.Marshal(map[string]any{"seq": after + 1, "next_by_subj": filter})
	if err != nil {
		return nil, err
	}
	answer, err := js.Conn().RequestWithContext(ctx, prefix(js.Options())+"STREAM.MSG.GET."+stream, request)
	if err != nil {
		return nil, fmt.Errorf("ask stream %s for its next message: %w", stream, err)
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			At       time.Time `json:"time"`
			Headers  []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &reply); err != nil {
		return nil, fmt.Errorf("ask stream %s for its next message: %w", stream, err)
	}
	switch {
	case reply.Error != nil && reply.Error.ErrorCode == codeNoMessage:
		return nil, nil //nolint:nilnil // there is none
	case reply.Error != nil:
		return nil, fmt.Errorf("ask stream %s for its next message: %w", stream, reply.Error)
	case len(reply.Message.Headers) == 0 || len(reply.Message.Data) > 0:
		return nil, nil //nolint:nilnil // clients show it
	}
	header, err := nats.DecodeHeadersMsg(reply.Message.Headers)
	if err != nil || header.Get(headername.Status) == "" {
		return nil, err
	}
	return &Message{
		subject: reply.Message.Subject, header: header,
		meta: jetstream.MsgMetadata{Stream: stream, Sequence: jetstream.SequencePair{Stream: reply.Message.Sequence}, Timestamp: reply.Message.At},
	}, nil
}

// prefix is what requests to the API begin with.
func prefix(o jetstream.JetStreamOptions) string {
	if o.Domain != "" {
		return "$JS." + o.Domain + ".API."
	}
	return strings.TrimSuffix(cmp.Or(o.APIPrefix, jetstream.DefaultAPIPrefix), ".") + "."
}

// Message is a jetstream.Msg that no consumer delivered: it has no payload, and to acknowledge it does nothing.
type Message struct {
	subject string
	header  nats.Header
	meta    jetstream.MsgMetadata
}

// Metadata implements jetstream.Msg; the consumer's part is empty.
func (m *Message) Metadata() (*jetstream.MsgMetadata, error) { return &m.meta, nil }

// Place is what Metadata returns.
func (m *Message) Place() *jetstream.MsgMetadata { return &m.meta }

// Data implements jetstream.Msg.
func (m *Message) Data() []byte { return nil }

// Headers implements jetstream.Msg.
func (m *Message) Headers() nats.Header { return m.header }

// Subject implements jetstream.Msg.
func (m *Message) Subject() string { return m.subject }

// Reply implements jetstream.Msg.
func (m *Message) Reply() string { return "" }

// Ack implements jetstream.Msg.
func (m *Message) Ack() error { return nil }

// DoubleAck implements jetstream.Msg.
func (m *Message) DoubleAck(context.Context) error { return nil }

// Nak implements jetstream.Msg.
func (m *Message) Nak() error { return nil }

// NakWithDelay implements jetstream.Msg.
func (m *Message) NakWithDelay(time.Duration) error { return nil }

// InProgress implements jetstream.Msg.
func (m *Message) InProgress() error { return nil }

// Term implements jetstream.Msg.
func (m *Message) Term() error { return nil }

// TermWithReason implements jetstream.Msg.
func (m *Message) TermWithReason(string) error { return nil }
