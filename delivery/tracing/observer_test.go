package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/tracing"
	"github.com/postrider/postrider/internal/testkit/leaks"
	"github.com/postrider/postrider/lease/leasetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaks.Patiently(m), leaks.Known()...) }

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func message(sequence int64, traceParent, traceState string) delivery.Message {
	return delivery.Message{
		Pointer: delivery.Pointer{Partition: 3, Sequence: sequence, Stream: "order-7", Topic: "shop"},
		Event: &delivery.Event{
			Sequence: sequence, ID: uuid.Must(uuid.NewV7()), Type: "order.paid", Payload: []byte("{}"),
			TraceParent: traceParent, TraceState: traceState,
		},
	}
}

func batch(messages ...delivery.Message) (delivery.Batch, []delivery.Outcome) {
	outcomes := make([]delivery.Outcome, len(messages))
	for i := range outcomes {
		outcomes[i] = delivery.Outcome{Kind: delivery.Published, StreamSequence: uint64(i) + 1}
	}
	return delivery.Batch{Lease: leasetest.Held(3, 7), Messages: messages}, outcomes
}

// recorded returns the spans that an observer makes.
func recorded(t *testing.T, observe func(*tracing.Observer)) tracetest.SpanStubs {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	limits := sdktrace.NewSpanLimits()
	limits.LinkCountLimit = -1
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept), sdktrace.WithRawSpanLimits(limits))
	observe(tracing.New(tracing.Config{
		Provider: provider, Stream: "EVENTS", Template: "events.{topic}.{type}",
		Subject: func(m delivery.Message) string { return "events." + m.Topic + "." + m.Event.Type },
	}))
	return kept.GetSpans()
}

func attributes(list []attribute.KeyValue) map[string]string {
	values := map[string]string{}
	for _, a := range list {
		values[string(a.Key)] = a.Value.String()
	}
	return values
}

func TestABatchLinksToTheTraceOfEachMessage(t *testing.T) {
	t.Parallel()
	var messages []delivery.Message
	for i := range int64(300) { // more than the SDK links by default
		messages = append(messages, message(i+1, fmt.Sprintf("00-%032x-%016x-01", i+1, i+1), "a=b"))
	}
	messages = append(messages, message(999, "", ""))
	began := time.Now().Add(-time.Second)
	spans := recorded(t, func(o *tracing.Observer) {
		b, outcomes := batch(messages...)
		o.Published(began, b, outcomes)
	})
	if len(spans) != 1 {
		t.Fatalf("%d spans for one batch", len(spans))
	}
	s := spans[0]
	if s.Name != "send events.{topic}.{type}" || s.SpanKind != trace.SpanKindProducer || s.Parent.IsValid() || !s.StartTime.Equal(began) {
		t.Errorf("span %q of kind %s, parent %v, from %s", s.Name, s.SpanKind, s.Parent, s.StartTime)
	}
	got := attributes(s.Attributes)
	for key, want := range map[string]string{
		"messaging.system": "nats", "messaging.operation.name": "send", "messaging.operation.type": "send",
		"messaging.destination.template": "events.{topic}.{type}", "messaging.destination.partition.id": "3",
		"messaging.batch.message_count": "301", "postrider.stream": "EVENTS", "postrider.epoch": "7", "postrider.published": "301",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if len(s.Links) != 300 {
		t.Fatalf("%d links, want 300", len(s.Links))
	}
	for i, l := range s.Links {
		id := attributes(l.Attributes)["messaging.message.id"]
		if l.SpanContext.TraceID().String() != fmt.Sprintf("%032x", i+1) || l.SpanContext.SpanID().String() != fmt.Sprintf("%016x", i+1) ||
			!l.SpanContext.IsSampled() || l.SpanContext.TraceState().String() != "a=b" || id != messages[i].Event.ID.String() {
			t.Fatalf("link %d is %v with %v", i, l.SpanContext, l.Attributes)
		}
	}
}

func TestASingleMessageIsNamed(t *testing.T) {
	t.Parallel()
	m := message(1, parent, "")
	spans := recorded(t, func(o *tracing.Observer) {
		b, outcomes := batch(m)
		o.Published(time.Now(), b, outcomes)
	})
	got := attributes(spans[0].Attributes)
	if got["messaging.message.id"] != m.Event.ID.String() || got["messaging.destination.name"] != "events.shop.order.paid" ||
		got["messaging.batch.message_count"] != "" {
		t.Errorf("attributes %v", got)
	}
}

// What is stored may come from anybody.
func TestAMalformedTraceContextGetsNoLink(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parent, state string
		links         int
		keeps         string
	}{
		"good":                   {parent: parent, state: "a=b,c=d", links: 1, keeps: "a=b,c=d"},
		"not sampled":            {parent: parent[:53] + "00", links: 1},
		"unknown flags":          {parent: parent[:53] + "ff", links: 1},
		"later version":          {parent: "01" + parent[2:] + "-and-more", links: 1},
		"garbage":                {parent: "garbage"},
		"garbage of that length": {parent: strings.Repeat("x", len(parent))},
		"upper case":             {parent: strings.ToUpper(parent)},
		"no trace":               {parent: "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01"},
		"no span":                {parent: parent[:36] + strings.Repeat("0", 16) + "-01"},
		"version ff":             {parent: "ff" + parent[2:]},
		"version 00 with more":   {parent: parent + "-more"},
		"upper case flags":       {parent: parent[:53] + "0A"},
		"flags of nothing":       {parent: parent[:53] + "zz"},
		"newline":                {parent: parent[:54] + "\n"},
		"line behind":            {parent: parent + "\r\nNats-Rollup: all"},
		"huge":                   {parent: "01" + parent[2:] + "-" + strings.Repeat("x", 1<<20)},
		"garbage as state":       {parent: parent, state: "=\n=", links: 1},
		"huge state":             {parent: parent, state: "a=" + strings.Repeat("x", 1<<20), links: 1},
		"state alone":            {state: "a=b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := recorded(t, func(o *tracing.Observer) {
				b, outcomes := batch(message(1, c.parent, c.state))
				o.Published(time.Now(), b, outcomes)
			})
			if len(spans) != 1 || len(spans[0].Links) != c.links {
				t.Fatalf("%d spans, links %v", len(spans), spans[0].Links)
			}
			for _, l := range spans[0].Links {
				if got := l.SpanContext.TraceState().String(); got != c.keeps || l.SpanContext.TraceFlags()&^trace.FlagsSampled != 0 {
					t.Errorf("tracestate %q, flags %s", got, l.SpanContext.TraceFlags())
				}
			}
		})
	}
}

// An error shows by its class: its text may quote what no trace should hold.
func TestFailuresShowByTheirClass(t *testing.T) {
	t.Parallel()
	secret := errors.New("postgres://u:pl4nted@h/x")
	for class, err := range map[string]error{
		"_OTHER": secret, "broker_unavailable": fmt.Errorf("%w: %w", delivery.ErrOutage, secret),
		"fenced": fmt.Errorf("%w: %w", delivery.ErrFenced, secret), "timeout": context.DeadlineExceeded,
		"unknown_acknowledgement": fmt.Errorf("%w: %w: %w", delivery.ErrUnknown, delivery.ErrOutage, secret),
	} {
		spans := recorded(t, func(o *tracing.Observer) {
			b, outcomes := batch(message(1, parent, ""), message(2, parent, ""), message(3, parent, ""), message(4, parent, ""))
			outcomes[1] = delivery.Outcome{Kind: delivery.Retry, Err: err}
			outcomes[2] = delivery.Outcome{Kind: delivery.Behind}
			outcomes[3] = delivery.Outcome{}
			o.Published(time.Now(), b, outcomes)
			o.Claimed(time.Now(), 1, 0, err)
			o.Marked(time.Now(), []delivery.Result{{Batch: b, Outcomes: outcomes}}, err)
			o.Taken(time.Now(), b.Lease, err)
			o.Coordinated("hand over", time.Now(), 2, err)
		})
		var names []string
		for _, s := range spans {
			names = append(names, s.Name)
			if s.Status.Code != codes.Error || s.Status.Description != class || attributes(s.Attributes)["error.type"] != class {
				t.Errorf("%s: status %v, %v", s.Name, s.Status, s.Attributes)
			}
			if strings.Contains(fmt.Sprint(s), "pl4nted") {
				t.Errorf("%s shows the error's text", s.Name)
			}
		}
		if want := []string{"send events.{topic}.{type}", "claim", "mark", "take", "hand over"}; !slices.Equal(names, want) {
			t.Errorf("spans %v, want %v", names, want)
		}
		if n := len(spans[0].Links); n != 2 {
			t.Errorf("%d links, want those of the two messages that were tried", n)
		}
	}
}

func TestWhatWasNotSentHasNoSpan(t *testing.T) {
	t.Parallel()
	spans := recorded(t, func(o *tracing.Observer) {
		b, _ := batch(message(1, parent, ""), message(2, parent, ""))
		o.Published(time.Now(), b, make([]delivery.Outcome, 2))
	})
	if len(spans) != 0 {
		t.Errorf("%d spans", len(spans))
	}
}
