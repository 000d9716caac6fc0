package inbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/inbox"
)

func headers() nats.Header {
	return nats.Header{
		inbox.HeaderEventID: {"018f4f0e-0000-7000-8000-000000000001"}, inbox.HeaderStream: {"order-1"}, inbox.HeaderStreamVersion: {"3"},
		inbox.HeaderSequence: {"77"}, inbox.HeaderPartition: {"5"}, inbox.HeaderType: {"placed"}, inbox.HeaderGeneration: {"2"},
		inbox.HeaderEpoch: {"9"}, inbox.HeaderRecordedAt: {"2026-01-02T03:04:05.000006Z"}, inbox.HeaderTraceParent: {"00-ab-cd-01"},
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	m, err := inbox.Parse("events.orders.placed", 12, headers(), []byte("body"))
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
		inbox.HeaderEventID:       {"", "no", "018f4f0e-0000-7000-8000-00000000000"},
		inbox.HeaderStream:        {""},
		inbox.HeaderStreamVersion: {"", "0", "-1", "1.5", "99999999999999999999"},
		inbox.HeaderSequence:      {"", "0", "x"},
		inbox.HeaderPartition:     {"", "-1", "40000"},
		inbox.HeaderType:          {""},
		inbox.HeaderGeneration:    {"-1", "x", "99999999999"},
		inbox.HeaderEpoch:         {"-1", "x"},
		inbox.HeaderRecordedAt:    {"yesterday"},
	} {
		for _, value := range values {
			h := headers()
			h.Set(name, value)
			_, err := inbox.Parse("events.a", 12, h, nil)
			var malformed *inbox.MalformedError
			if !errors.Is(err, inbox.ErrMalformed) || !errors.As(err, &malformed) || malformed.Header != name || malformed.Sequence != 12 {
				t.Errorf("%s %q gives %v", name, value, err)
			}
		}
	}
	if _, err := inbox.Parse("outbox.fence.1", 1, nil, nil); !errors.Is(err, inbox.ErrMalformed) {
		t.Errorf("a message without headers gives %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("018f4f0e-0000-7000-8000-000000000001", "order-1", "3", "2")
	f.Fuzz(func(_ *testing.T, id, stream, version, generation string) {
		h := headers()
		h.Set(inbox.HeaderEventID, id)
		h.Set(inbox.HeaderStream, stream)
		h.Set(inbox.HeaderStreamVersion, version)
		h.Set(inbox.HeaderGeneration, generation)
		_, _ = inbox.Parse("events.a", 1, h, nil) // it must not panic
	})
}

func TestConfigsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]inbox.Config{
		"Name": {}, "Order": {Name: "n", Order: 7}, "Backoff": {Name: "n", BackoffBase: -1}, "BackoffFactor": {Name: "n", BackoffFactor: 0.5},
		"BackoffMax": {Name: "n", BackoffBase: time.Hour}, "Jitter": {Name: "n", Jitter: "full"}, "MaxAttempts": {Name: "n", MaxAttempts: -2},
		"HandlerTimeout": {Name: "n", HandlerTimeout: 1}, "Retention": {Name: "n", Retention: 1}, "Schema": {Name: "n", Schema: "a.b"},
	} {
		if _, err := inbox.New(nil, c); !errors.Is(err, inbox.ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s gives %v", field, err)
		}
	}
	for field, c := range map[string]inbox.ConsumerConfig{
		"Lanes": {Lanes: 2000}, "BatchSize": {BatchSize: -1}, "Workers": {Workers: -1}, "LeaseTTL": {LeaseTTL: 1},
		"Filter": {Filter: ">"}, `Filter "outbox.*.>"`: {Filter: "outbox.*.>"}, `Filter "*.>"`: {Filter: "*.>"},
		"Interval": {LeaseTTL: time.Second, Interval: time.Second}, "QuietTime": {QuietTime: 1}, "DrainTimeout": {DrainTimeout: -1},
	} {
		if err := c.Validate(); !errors.Is(err, inbox.ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s gives %v", field, err)
		}
	}
}
