package message_test

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/message"
)

func headers() nats.Header {
	return nats.Header{
		message.HeaderEventID: {"018f4f0e-0000-7000-8000-000000000001"}, message.HeaderStream: {"order-1"}, message.HeaderStreamVersion: {"3"},
		message.HeaderSequence: {"77"}, message.HeaderPartition: {"5"}, message.HeaderType: {"placed"}, message.HeaderGeneration: {"2"},
		message.HeaderEpoch: {"9"}, message.HeaderRecordedAt: {"2026-01-02T03:04:05.000006Z"}, message.HeaderTraceParent: {"00-ab-cd-01"},
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	m, err := message.Parse("events.orders.placed", 12, headers(), []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	if m.EventID != uuid.MustParse("018f4f0e-0000-7000-8000-000000000001") || m.Stream != "order-1" || m.Version != 3 || m.Sequence != 77 ||
		m.Partition != 5 || m.Type != "placed" || m.Generation != 2 || m.Epoch != 9 || m.TraceParent != "00-ab-cd-01" ||
		!m.RecordedAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)) || m.StreamSequence != 12 || string(m.Payload) != "body" {
		t.Errorf("it reads %+v", m)
	}
}

func TestParseNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]string{
		message.HeaderEventID:       {"", "no", "018f4f0e-0000-7000-8000-00000000000"},
		message.HeaderStream:        {""},
		message.HeaderStreamVersion: {"", "0", "-1", "1.5", "99999999999999999999"},
		message.HeaderSequence:      {"", "0", "x"},
		message.HeaderPartition:     {"", "-1", "40000"},
		message.HeaderType:          {""},
		message.HeaderGeneration:    {"-1", "x", "99999999999"},
		message.HeaderEpoch:         {"-1", "x"},
		message.HeaderRecordedAt:    {"yesterday", "2026-01-02T03:04:05+24:60", "0000-06-01T00:00:00Z", "9999-12-31T23:59:59-00:01", "10000-01-01T00:00:00Z"},
		message.HeaderTraceParent:   {"a\x00b"},
		"Another":                   {"\x00"},
	} {
		for _, value := range values {
			h := headers()
			h.Set(name, value)
			_, err := message.Parse("events.a", 12, h, nil)
			var malformed *message.MalformedError
			if !errors.Is(err, message.ErrMalformed) || !errors.As(err, &malformed) || malformed.Header != name || malformed.Sequence != 12 {
				t.Errorf("%s %q gives %v", name, value, err)
			}
		}
	}
	if _, err := message.Parse("outbox.fence.1", 1, nil, nil); !errors.Is(err, message.ErrMalformed) {
		t.Errorf("a message without headers gives %v", err)
	}
}

// Programs in other languages read these names: a release cannot change them.
func TestNamesAreFrozen(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		message.HeaderEventID: "Outbox-Event-Id", message.HeaderSequence: "Outbox-Sequence", message.HeaderPartition: "Outbox-Partition",
		message.HeaderStream: "Outbox-Stream", message.HeaderStreamVersion: "Outbox-Stream-Version", message.HeaderType: "Outbox-Type",
		message.HeaderGeneration: "Outbox-Generation", message.HeaderEpoch: "Outbox-Epoch", message.HeaderRecordedAt: "Outbox-Recorded-At",
		message.HeaderCorrelationID: "Outbox-Correlation-Id", message.HeaderCausationID: "Outbox-Causation-Id",
		message.HeaderTraceParent: "traceparent", message.HeaderTraceState: "tracestate",
		message.HeaderCEID: "ce-id", message.HeaderCESource: "ce-source", message.HeaderCESpecVersion: "ce-specversion",
	} {
		if got != want {
			t.Errorf("a header is called %s, %s before", got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("018f4f0e-0000-7000-8000-000000000001", "order-1", "3", "2")
	f.Fuzz(func(_ *testing.T, id, stream, version, generation string) {
		h := headers()
		h.Set(message.HeaderEventID, id)
		h.Set(message.HeaderStream, stream)
		h.Set(message.HeaderStreamVersion, version)
		h.Set(message.HeaderGeneration, generation)
		_, _ = message.Parse("events.a", 1, h, nil) // it must not panic
	})
}

// What Headers says of a header is what Parse asks of it.
func TestHeadersAreAsTheyAreRead(t *testing.T) {
	t.Parallel()
	rules := map[string]message.HeaderRule{}
	for _, rule := range message.Headers() {
		if rule.Says == "" || rules[rule.Name].Name != "" {
			t.Errorf("%s: %+v", rule.Name, rule)
		}
		rules[rule.Name] = rule
	}
	for name := range headers() {
		rule := rules[name]
		if value := headers().Get(name); !regexp.MustCompile(rule.Pattern).MatchString(value) {
			t.Errorf("%s: %q does not match %q", name, value, rule.Pattern)
		}
		without := headers()
		without.Del(name)
		if _, err := message.Parse("events.a", 1, without, nil); (err != nil) != rule.Always {
			t.Errorf("%s: always there is %t, and without it Parse says %v", name, rule.Always, err)
		}
		for _, wrong := range []string{"", "x\n", "-1", "yesterday"} {
			h := headers()
			h.Set(name, wrong)
			if _, err := message.Parse("events.a", 1, h, nil); err != nil && wrong != "" && rule.Pattern != "." && regexp.MustCompile(rule.Pattern).MatchString(wrong) {
				t.Errorf("%s: %q matches, and Parse says %v", name, wrong, err)
			}
		}
	}
}
