package natspub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"testing"
	"time"

	cejetstream "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/message/codec"
)

// send publishes messages and wants them stored.
func (b bundle) send(t *testing.T, headers wire.Headers, c *codec.Compressor, messages ...delivery.Message) {
	t.Helper()
	for i, o := range b.trySend(t, headers, c, messages...) {
		if o.Kind != delivery.Published {
			t.Fatalf("message %d: %+v", i, o)
		}
	}
}

func (b bundle) trySend(t *testing.T, headers wire.Headers, c *codec.Compressor, messages ...delivery.Message) []delivery.Outcome {
	t.Helper()
	w := b.worker(t, 3, 7, natspub.FencedConfig{Shape: wire.Shape{Headers: headers, Compressor: c}})
	w.take(t)
	return w.publish(t, messages...)
}

// received are the first events of the stream, as it holds them.
func (b bundle) received(t *testing.T, n int) (list []*nats.Msg) {
	t.Helper()
	for at := uint64(1); len(list) < n; {
		m, err := b.stream.GetMsg(t.Context(), at, jetstream.WithGetMsgSubject("events.>"))
		if err != nil {
			t.Fatal(err)
		}
		at = m.Sequence + 1
		list = append(list, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	return list
}

// asEvent reads a message by the official SDK.
func asEvent(t *testing.T, msg *nats.Msg) *event.Event {
	t.Helper()
	wrapped := cejetstream.NewMessage(msg)
	if wrapped.ReadEncoding() != binding.EncodingBinary {
		t.Fatalf("the SDK takes it for %s", wrapped.ReadEncoding())
	}
	e, err := binding.ToEvent(context.Background(), wrapped)
	if err != nil {
		t.Fatalf("the SDK cannot read it: %v\n%v", err, msg.Header)
	}
	if err := e.Validate(); err != nil {
		t.Errorf("the SDK says that the event is invalid: %v", err)
	}
	return e
}

var shopEvents = wire.CloudEvents{Source: "https://shop.example/orders?x=1", ContentType: "application/json"}

func TestTheOfficialSDKReadsCloudEvents(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle) {
		t.Helper()
		m := newMessage(41, "order-7", `{"a":1}`)
		m.Event.OccurredAt = time.Date(2026, 3, 1, 12, 30, 0, 123456000, time.FixedZone("CET", 3600))
		m.Event.Headers = map[string]string{
			"ce-dataschema": "https://shop.example/schemas/order.json", "content-type": "application/vnd.shop+json; charset=utf-8", "ce-region": "eu",
		}
		plain := newMessage(42, "order-8", "")
		b.send(t, wire.Headers{CloudEvents: &shopEvents, Forward: []string{"ce-region"}}, nil, m, plain)
		got := b.received(t, 2)
		e := asEvent(t, got[0])
		for name, pair := range map[string][2]any{
			"specversion": {e.SpecVersion(), "1.0"}, "id": {e.ID(), m.Event.ID.String()}, "source": {e.Source(), shopEvents.Source},
			"type": {e.Type(), "order.paid"}, "subject": {e.Subject(), "order-7"}, "dataschema": {e.DataSchema(), "https://shop.example/schemas/order.json"},
			"datacontenttype": {e.DataContentType(), "application/vnd.shop+json;charset=utf-8"}, "data": {string(e.Data()), `{"a":1}`},
			"time":         {e.Time().Format(time.RFC3339Nano), "2026-03-01T11:30:00.123456Z"},
			"partitionkey": {e.Extensions()["partitionkey"], "order-7"}, "sequence": {e.Extensions()["sequence"], "0000000000000000041"},
			"region": {e.Extensions()["region"], "eu"},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
			}
		}
		if h := got[0].Header; h.Get("Outbox-Event-Id") != m.Event.ID.String() || h.Get("Outbox-Sequence") != "41" || h.Get("Outbox-Stream") != "order-7" {
			t.Errorf("the headers of the outbox are missing: %v", h)
		}
		e = asEvent(t, got[1])
		if !e.Time().IsZero() || e.DataSchema() != "" || e.DataContentType() != "application/json" || len(e.Data()) != 0 {
			t.Errorf("an event that says little is %v", e)
		}
	})
}

// Every value that comes from data reads back as it was, by the rule of the binding, and adds no header.
func TestHostileValuesAddNoHeaders(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"7\r\nNats-Rollup: all\r\nce-id: forged", "\r\n\r\nbody", "a\nb", "größe €", "\U0001F600", " spaces at the ends ", `"quoted" 100%`, "%0D%0Ax: y", "\x00\x01\x7f\u0085",
		strings.Repeat("é", 512),
	}
	eachWay(t, func(t *testing.T, b bundle) {
		t.Helper()
		var messages []delivery.Message
		for i, text := range hostile {
			m := newMessage(int64(i+1), text, `{}`)
			m.Event.Type = text
			m.Event.Headers = map[string]string{"ce-dataschema": "x:" + text, "ce-datacontenttype": text, "ce-note": text}
			messages = append(messages, m)
		}
		headers := wire.Headers{CloudEvents: &shopEvents, Forward: []string{"ce-note"}}
		b.send(t, headers, nil, messages...)
		for i, msg := range b.received(t, len(hostile)) {
			h := msg.Header
			for _, name := range []string{"ce-type", "ce-subject", "ce-partitionkey", "ce-note"} {
				value := h.Get(name)
				if got := decoded(t, value); got != hostile[i] || value != textproto.TrimString(value) {
					t.Errorf("%s of %q is %q, which reads %q", name, hostile[i], value, got)
				}
			}
			for name, values := range h {
				if len(values) != 1 || name == "Nats-Rollup" || name == "x" || strings.ContainsAny(values[0], "\r\n") {
					t.Errorf("%q made the header %q: %q", hostile[i], name, values)
				}
			}
			if h.Get("ce-id") != messages[i].Event.ID.String() || h.Get("ce-datacontenttype") != "application/json" {
				t.Errorf("%q: ce-id %q, ce-datacontenttype %q", hostile[i], h.Get("ce-id"), h.Get("ce-datacontenttype"))
			}
			asEvent(t, msg)
		}
	})
}

// decoded undoes the encoding of the binding, and wants nothing in it that had to be encoded.
func decoded(t *testing.T, value string) string {
	t.Helper()
	var b bytes.Buffer
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '%':
			var n byte
			if _, err := fmt.Sscanf(value[i+1:min(i+3, len(value))], "%02X", &n); err != nil {
				t.Fatalf("%q: %v", value, err)
			}
			b.WriteByte(n)
			i += 2
		case c <= ' ' || c >= 0x7f || c == '"':
			t.Fatalf("%q holds %q as it is", value, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// What is too large for the server's headers harms nobody else.
func TestHugeAttributesFailAlone(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle) {
		t.Helper()
		huge := newMessage(2, "b", "{}")
		huge.Event.Type = strings.Repeat("é", 40_000)
		outcomes := b.trySend(t, wire.Headers{CloudEvents: &shopEvents}, nil, newMessage(1, "a", "{}"), huge, newMessage(3, "c", "{}"))
		for i, want := range []delivery.Kind{delivery.Published, delivery.Permanent, delivery.Published} {
			if outcomes[i].Kind != want {
				t.Errorf("message %d: %+v", i+1, outcomes[i])
			}
		}
	})
}

func TestCloudEventsSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"/shop", "urn:uuid:" + uuid.NewString(), "mailto:a@b.example", "https://x.example/%20y"} {
		if err := (wire.Headers{CloudEvents: &wire.CloudEvents{Source: source}}).Validate(); err != nil {
			t.Errorf("source %q: %v", source, err)
		}
	}
	for name, h := range map[string]wire.Headers{
		"no source":           {CloudEvents: &wire.CloudEvents{}},
		"a space":             {CloudEvents: &wire.CloudEvents{Source: "a b"}},
		"a line break":        {CloudEvents: &wire.CloudEvents{Source: "/a\r\nNats-Rollup: all"}},
		"not ASCII":           {CloudEvents: &wire.CloudEvents{Source: "/größe"}},
		"not a URI":           {CloudEvents: &wire.CloudEvents{Source: "http://[::1"}},
		"content type":        {CloudEvents: &wire.CloudEvents{Source: "/", ContentType: "json"}},
		"forwarded id":        {CloudEvents: &shopEvents, Forward: []string{"ce-id"}},
		"forwarded Id":        {CloudEvents: &shopEvents, Forward: []string{"Ce-Id"}},
		"forwarded data":      {CloudEvents: &shopEvents, Forward: []string{"ce-data"}},
		"forwarded extension": {CloudEvents: &shopEvents, Forward: []string{"ce-my-ext"}},
		"forwarded mode":      {CloudEvents: &shopEvents, Forward: []string{"Content-Type"}},
	} {
		if err := h.Validate(); !errors.Is(err, wire.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := codec.NewCompressor(codec.Zstd, 0)
	if err != nil {
		t.Fatal(err)
	}
	nc := setup(t, 1).nc
	for _, name := range []string{"Content-Encoding", "content-encoding"} {
		if _, err := natspub.NewFenced(nc, natspub.FencedConfig{Shape: wire.Shape{Compressor: c, Headers: wire.Headers{Forward: []string{name}}}}); !errors.Is(err, wire.ErrConfig) {
			t.Errorf("%s is forwarded beside compression: %v", name, err)
		}
	}
}
