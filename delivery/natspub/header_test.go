package natspub_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/message/codec"
)

// sent publishes one message and returns its headers, without those of its storing.
func (b bundle) sent(t *testing.T, headers wire.Headers, c *codec.Compressor, m delivery.Message) nats.Header {
	t.Helper()
	b.send(t, headers, c, m)
	return b.received(t, 1)[0].Header
}

// What producers say beside the event is sent without being asked for, and nothing is sent where they say nothing.
func TestWhatProducersSayIsSent(t *testing.T) {
	t.Parallel()
	said := func() delivery.Message {
		m := newMessage(1, "order-7", `{}`)
		m.Event.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		m.Event.CorrelationID, m.Event.CausationID = "checkout 7 €", "order-6"
		m.Event.Headers = map[string]string{
			"x-user": "u7", "X-Note": "a\u0085b", "Traceparent": "forged", "content-type": "text/plain",
			"ce-region": "größe", "ce-id": "forged", "ce-Not_One": "x",
		}
		return m
	}
	ce := &shopEvents
	for name, c := range map[string]struct {
		headers wire.Headers
		m       delivery.Message
		want    map[string]string
	}{
		"all": {wire.Headers{}, said(), map[string]string{
			"Outbox-Correlation-Id": "checkout 7 €", "Outbox-Causation-Id": "order-6", "x-user": "u7", "X-Note": "a%C2%85b",
			"traceparent": said().Event.TraceParent, "Traceparent": "", "content-type": "text/plain", "ce-region": "größe", "ce-correlationid": "",
		}},
		"named": {wire.Headers{Forward: []string{"x-user"}}, said(), map[string]string{
			"Outbox-Correlation-Id": "checkout 7 €", "Outbox-Causation-Id": "order-6", "x-user": "u7", "X-Note": "", "content-type": "",
		}},
		"minimal": {wire.Headers{Minimal: true}, said(), map[string]string{
			"Outbox-Correlation-Id": "", "Outbox-Causation-Id": "", "x-user": "", "X-Note": "", "traceparent": said().Event.TraceParent,
		}},
		"minimal and named": {wire.Headers{Minimal: true, Forward: []string{"X-Note"}}, said(), map[string]string{
			"Outbox-Correlation-Id": "", "x-user": "", "X-Note": "a%C2%85b",
		}},
		"cloudevents": {wire.Headers{CloudEvents: ce}, said(), map[string]string{
			"Outbox-Correlation-Id": "checkout 7 €", "ce-correlationid": "checkout%207%20%E2%82%AC", "ce-causationid": "order-6", "x-user": "u7",
			"content-type": "", "ce-datacontenttype": "text/plain", "ce-region": "gr%C3%B6%C3%9Fe", "ce-id": said().Event.ID.String(), "ce-Not_One": "",
		}},
		"minimal cloudevents": {wire.Headers{CloudEvents: ce, Minimal: true}, said(), map[string]string{
			"ce-correlationid": "", "ce-causationid": "", "ce-region": "", "x-user": "",
		}},
		"far time": {wire.Headers{Full: true, CloudEvents: ce}, changedTime(time.Date(294276, 12, 31, 0, 0, 0, 0, time.UTC)), map[string]string{"Outbox-Recorded-At": "", "ce-time": ""}},
		"old time": {wire.Headers{Full: true, CloudEvents: ce}, changedTime(time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC)), map[string]string{"Outbox-Recorded-At": "", "ce-time": ""}},
		"nothing said": {wire.Headers{CloudEvents: ce}, newMessage(1, "s", `{}`), map[string]string{
			"Outbox-Correlation-Id": "", "Outbox-Causation-Id": "", "ce-correlationid": "", "ce-causationid": "",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := setup(t, 1).sent(t, c.headers, nil, c.m)
			for header, want := range c.want {
				if header == "ce-id" {
					want = c.m.Event.ID.String()
				}
				value := got.Get(header)
				if value != want || want == "" && got[header] != nil {
					t.Errorf("%s is %q, want %q", header, value, want)
				}
			}
		})
	}
}

// changedTime is a message of an event of that time.
func changedTime(at time.Time) delivery.Message {
	m := newMessage(1, "s", `{}`)
	m.Event.RecordedAt, m.Event.OccurredAt = at, at
	return m
}

// An events relation of somebody else's making may hold any names.
func TestHeadersThatSteerTheServerAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Nats-Rollup", "nats-expected-last-sequence", "Outbox-Event-Id", "OUTBOX-stream", "a b", "a\r\nNats-Rollup", "", "größe"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			bad, fine := newMessage(1, "a", `{}`), newMessage(2, "b", `{}`)
			bad.Event.Headers = map[string]string{name: "all"}
			outcomes := b.trySend(t, wire.Headers{}, nil, bad, fine)
			if o := outcomes[0]; o.Kind != delivery.Permanent || !errors.Is(o.Err, wire.ErrHeader) {
				t.Errorf("outcome %+v", o)
			}
			if outcomes[1].Kind != delivery.Published {
				t.Errorf("its neighbour: %+v", outcomes[1])
			}
			if got := b.received(t, 1)[0].Header.Get("Outbox-Stream"); got != "b" {
				t.Errorf("stored is an event of stream %q", got)
			}
		})
	}
}

// A body that its producer encoded says so, and is not encoded once more.
func TestABodyIsNotEncodedTwice(t *testing.T) {
	t.Parallel()
	c, err := codec.NewCompressor(codec.Zstd, 10)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"content-encoding": "br", "x-other": "zstd"} {
		m := newMessage(1, "a", strings.Repeat("x", 1000))
		m.Event.Headers = map[string]string{name: "br"}
		got := setup(t, 1).sent(t, wire.Headers{}, c, m)
		var encodings []string
		for header, values := range got {
			if strings.EqualFold(header, codec.Header) {
				encodings = append(encodings, values...)
			}
		}
		if len(encodings) != 1 || encodings[0] != want {
			t.Errorf("with %s the encodings are %q", name, encodings)
		}
	}
}
