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
	found, err := get(ctx, js, stream, map[string]any{"seq": after + 1, "next_by_subj": filter})
	if err != nil || len(found.Headers) == 0 || len(found.Data) > 0 { // clients show it
		return nil, err
	}
	header, _ := nats.DecodeHeadersMsg(found.Headers) // clients show unreadable ones, without headers
	if header.Get(headername.Status) == "" {
		return nil, nil
	}
	return &Message{
		subject: found.Subject, header: header,
		meta: jetstream.MsgMetadata{Stream: stream, Sequence: jetstream.SequencePair{Stream: found.Sequence}, Timestamp: found.At},
	}, nil
}

// Last returns the stream sequence of the filter's last message, 0 without one. The stream's leader says so: a replica may be late.
func Last(ctx context.Context, js jetstream.JetStream, stream, filter string) (uint64, error) {
	found, err := get(ctx, js, stream, map[string]any{"last_by_subj": filter})
	return found.Sequence, err
}

// At dates the message at a position, zero without one. Its headers do not matter: they may be those of an answer, or unreadable.
func At(ctx context.Context, js jetstream.JetStream, stream string, sequence uint64) (time.Time, error) {
	found, err := get(ctx, js, stream, map[string]any{"seq": sequence})
	return found.At, err
}

// stored is a message as the API returns it.
type stored struct {
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"seq"`
	At       time.Time `json:"time"`
	Headers  []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
}

// get returns one message of a stream; it is empty where there is none.
func get(ctx context.Context, js jetstream.JetStream, stream string, which map[string]any) (stored, error) {
	fail := func(err error) (stored, error) {
		return stored{}, fmt.Errorf("ask stream %s for a message (STREAM.MSG.GET): %w", stream, err)
	}
	request, err := json.Marshal(which)
	if err != nil {
		return fail(err)
	}
	answer, err := js.Conn().RequestWithContext(ctx, prefix(js.Options())+"STREAM.MSG.GET."+stream, request)
	if err != nil {
		return fail(err)
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message stored              `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &reply); err != nil {
		return fail(err)
	}
	if reply.Error != nil && reply.Error.ErrorCode != codeNoMessage {
		return fail(reply.Error)
	}
	return reply.Message, nil
}

// prefix begins the subjects of requests to the API.
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

// Place gives the metadata to whoever fills them in.
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
