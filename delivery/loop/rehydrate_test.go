package loop_test

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
)

// Small payloads come whatever is among them; of the larger ones come as many as fit, and what lies behind the first
// that does not is cut.
func TestRehydrationReadsWhatFits(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	var all []int64
	for _, size := range []int{100, 100, 5000, 100, 7000, 100} {
		all = append(all, b.append(t, "s", `"`+strings.Repeat("x", size-2)+`"`))
	}
	for name, c := range map[string]struct {
		sequences            []int64
		maxPayload, maxBytes int64
		cutAt                int64
		payloads             []int // by sequence, of those before the cut
	}{
		"everything":         {all, 1 << 20, 1 << 20, 0, []int{100, 100, 5000, 100, 7000, 100}},
		"one too many":       {all, 1 << 20, 6000, all[4], []int{100, 100, 5000, 100}},
		"too large for ever": {all, 6000, 6000, 0, []int{100, 100, 5000, 100, 0, 100}},
		"none is small":      {all, 1 << 20, 500, all[2], []int{100, 100}},
		"the first one":      {all[4:], 1 << 20, 1, all[5], []int{7000}},
		"alone":              {all[4:5], 1 << 20, 1, 0, []int{7000}},
		"exactly":            {all[:2], 100, 200, 0, []int{100, 100}},
		"not quite":          {all[:2], 100, 199, all[1], []int{100}},
		"nothing":            {nil, 1 << 20, 1 << 20, 0, nil},
	} {
		events, cutAt, err := b.store.Rehydrate(t.Context(), time.Time{}, c.sequences, c.maxPayload, c.maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		var payloads []int
		for _, sequence := range slices.Sorted(maps.Keys(events)) {
			if cutAt == 0 || sequence < cutAt {
				payloads = append(payloads, len(events[sequence].Payload))
			}
		}
		if cutAt != c.cutAt || !slices.Equal(payloads, c.payloads) {
			t.Errorf("%s: cut at %d, payloads of %v bytes; want %d and %v", name, cutAt, payloads, c.cutAt, c.payloads)
		}
		if e := events[all[4]]; e != nil && e.Size != 7000 {
			t.Errorf("%s: the large one has a size of %d", name, e.Size)
		}
	}
}

// A worker has many connections, and each would keep the largest event that it ever read.
func TestAConnectionLetsGoOfALargeEvent(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const size = 24 << 20
	b := setup(t, 1)
	if _, err := b.pool.Exec(t.Context(), `UPDATE outbox_settings SET max_payload_bytes = 67108864`); err != nil {
		t.Fatal(err)
	}
	var sequence int64
	err := b.pool.QueryRow(t.Context(), `SELECT outbox_append_bytes('s', 'large', convert_to(repeat('x', $1), 'UTF8'))`, size).Scan(&sequence)
	if err != nil {
		t.Fatal(err)
	}
	held := func() uint64 {
		var stats runtime.MemStats
		runtime.GC() // twice: what pools have lent is theirs until the second
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := held()
	events, _, err := b.store.Rehydrate(t.Context(), time.Time{}, []int64{sequence}, 2*size, 1<<20)
	if err != nil || len(events[sequence].Payload) != size {
		t.Fatalf("%v, %v", events[sequence], err)
	}
	clear(events)
	if after := held(); after > before+size/2 {
		t.Errorf("%d MiB are held before an event of %d MiB, %d after", before>>20, size>>20, after>>20)
	}
}

// What one server gave out is not read from another: there the sequence may be another event's.
func TestRehydrationAsksTheServerOfTheClaim(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	sequence := b.append(t, "s", strings.Repeat("1", 1000))
	var started time.Time
	if err := b.pool.QueryRow(t.Context(), `SELECT pg_postmaster_start_time()`).Scan(&started); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		server time.Time
		err    error
	}{
		"the same":                {started, nil},
		"one that started before": {started.Add(-time.Second), delivery.ErrForgotten},
		"any":                     {time.Time{}, nil},
	} {
		events, _, err := b.store.Rehydrate(t.Context(), c.server, []int64{sequence}, 1<<20, 1<<20)
		if !errors.Is(err, c.err) || (len(events) == 1) != (c.err == nil) {
			t.Errorf("%s: %d events, %v, want %v", name, len(events), err, c.err)
		}
	}
}
