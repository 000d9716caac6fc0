package main

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/partition"
)

func TestRanges(t *testing.T) {
	t.Parallel()
	for want, ids := range map[string][]partition.ID{
		"":          {},
		"4":         {4},
		"0-3":       {0, 1, 2, 3},
		"0-1 4 7-9": {0, 1, 4, 7, 8, 9},
		"0,3,…,63":  {0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 63},
	} {
		if got := ranges(ids); got != want {
			t.Errorf("%v is shown as %q, want %q", ids, got, want)
		}
	}
}

func TestRatesForgetWhatIsOlderThanTheWindow(t *testing.T) {
	t.Parallel()
	r := rates{window: 5 * time.Second}
	start := time.Now()
	for second := range 20 {
		count := int64(0)
		if second >= 10 {
			count = int64(second-10) * 100
		}
		r.add(start.Add(time.Duration(second)*time.Second), count)
	}
	if got := r.perSecond(); got != 100 {
		t.Errorf("%g/s, want 100", got)
	}
	if len(r.times) > 7 {
		t.Errorf("%d samples are kept for a window of 5", len(r.times))
	}
}

func TestLagOfTheWatermark(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]delivery.Watermark{
		"–": {}, "0 sequences": {Safe: 7, Highest: 7}, "3 sequences": {Safe: 7, Highest: 10},
	} {
		if got := lag(w); got != want {
			t.Errorf("%+v is shown as %q, want %q", w, got, want)
		}
	}
}

func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, text := range []string{
		"postgres://me:hunter2@db/app", "nats://hunter2@n1:4222,nats://u:hunter2@n2", "user=me password=hunter2 host=db",
		"Token: hunter2", "PASSWORD = hunter2", "password='my hunter2",
	} {
		if got := redact(text); strings.Contains(got, secret) {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
	if got := redact("postgres://db/app is away"); got != "postgres://db/app is away" {
		t.Errorf("harmless text became %q", got)
	}
}
