package inbox_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/inbox"
)

func TestConfigsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]inbox.Config{
		"Name": {}, "Name must have 1 to 128 bytes of text": {Name: "\x00"}, "Name must": {Name: "\xff"}, "HandlerTimeout must be 100ms to": {Name: "n", HandlerTimeout: math.MaxInt64}, "Order": {Name: "n", Order: 7}, "Backoff": {Name: "n", BackoffBase: -1}, "BackoffFactor": {Name: "n", BackoffFactor: 0.5},
		"BackoffMax": {Name: "n", BackoffBase: time.Hour}, "Jitter": {Name: "n", Jitter: "full"}, "MaxAttempts": {Name: "n", MaxAttempts: -2},
		"HandlerTimeout": {Name: "n", HandlerTimeout: 1}, "Retention": {Name: "n", Retention: 1}, "MaxPayload": {Name: "n", MaxPayload: 65 << 20}, "Schema": {Name: "n", Schema: "a.b"},
	} {
		if _, err := inbox.New(nil, c); !errors.Is(err, inbox.ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s gives %v", field, err)
		}
	}
	for field, c := range map[string]inbox.ConsumerConfig{
		"Lanes": {Lanes: 2000}, "BatchSize": {BatchSize: -1}, "Workers": {Workers: -1}, "LeaseTTL": {LeaseTTL: 1},
		"Filter": {Filter: ">"}, `Filter "outbox.*.>"`: {Filter: "outbox.*.>"}, `Filter "*.>"`: {Filter: "*.>"},
		`Filter "outbox.fence.3"`: {Filter: "outbox.fence.3"}, `Filter "*.*.x"`: {Filter: "*.*.x"}, `Filter ">.x"`: {Filter: ">.x"}, `Filter "outbox.>.x"`: {Filter: "outbox.>.x"},
		"Interval": {LeaseTTL: time.Second, Interval: time.Second}, "QuietTime": {QuietTime: 1}, "DrainTimeout": {DrainTimeout: -1},
	} {
		if err := c.Validate(); !errors.Is(err, inbox.ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s gives %v", field, err)
		}
	}
	for _, filter := range []string{"events.>", "outbox", "outbox.fence", "*.*", "outbox.other.>", "outboxes.>", ">x"} {
		if err := (inbox.ConsumerConfig{Filter: filter}).Validate(); err != nil && strings.Contains(err.Error(), "covers") {
			t.Errorf("%s gives %v", filter, err)
		}
	}
}
