package ui_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/ui"
)

var errDown = errors.New("connection refused")

func newCache(t *testing.T, source ui.Source) *ui.Cache {
	t.Helper()
	cache, err := ui.NewCache(source, ui.CacheConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

func TestCollectorReportsOnlyThePresent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := false
		cache := newCache(t, &scripted{next: func(context.Context) (ui.Snapshot, error) {
			if down {
				return ui.Snapshot{}, errDown
			}
			return cluster(64), nil
		}})
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(ui.NewCollector(cache))
		const want = `
# HELP outbox_dead Events given up; they need an operator.
# TYPE outbox_dead gauge
outbox_dead 8
# HELP outbox_oldest_pending_age_seconds Age of the oldest pending event; 0 when none is pending.
# TYPE outbox_oldest_pending_age_seconds gauge
outbox_oldest_pending_age_seconds 55.8
# HELP outbox_partitions Partitions by state; owned and unowned add up to all, paused ones are counted once more.
# TYPE outbox_partitions gauge
outbox_partitions{state="owned"} 59
outbox_partitions{state="paused"} 4
outbox_partitions{state="unowned"} 5
# HELP outbox_workers Registered workers by state.
# TYPE outbox_workers gauge
outbox_workers{state="active"} 2
outbox_workers{state="draining"} 1
outbox_workers{state="stale"} 1
`
		err := testutil.GatherAndCompare(registry, strings.NewReader(want),
			"outbox_dead", "outbox_oldest_pending_age_seconds", "outbox_partitions", "outbox_workers")
		if err != nil {
			t.Error(err)
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", problems, err)
		}
		down = true
		advance(t, 20*time.Second)
		if n, err := testutil.GatherAndCount(registry); err != nil || n != 1 {
			t.Errorf("%d series from a stale snapshot (error %v), want its age alone", n, err)
		}
	})
}

// wait takes fake time inside a synctest bubble.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func advance(t *testing.T, d time.Duration) {
	t.Helper()
	if err := wait(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}
