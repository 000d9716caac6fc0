package ui_test

import (
	"context"
	"errors"
	"strings"
	"sync"
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

func TestCacheReadsOnceAnInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &scripted{next: func(ctx context.Context) (ui.Snapshot, error) {
			return cluster(1), wait(ctx, 200*time.Millisecond)
		}}
		cache := newCache(t, source)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := cache.Observe(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := source.reads.Load(); n != 1 {
			t.Fatalf("fifty callers at once caused %d reads, want 1", n)
		}
		if err := wait(t.Context(), 799*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if _, err := cache.Observe(t.Context()); err != nil || source.reads.Load() != 1 {
			t.Fatalf("%d reads within the interval (error %v), want 1", source.reads.Load(), err)
		}
		if err := wait(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if _, err := cache.Observe(t.Context()); err != nil || source.reads.Load() != 2 {
			t.Fatalf("%d reads after the interval (error %v), want 2", source.reads.Load(), err)
		}
	})
}

func TestCacheOutlivesTheCallerWhoAskedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &scripted{next: func(ctx context.Context) (ui.Snapshot, error) {
			return cluster(1), wait(ctx, 300*time.Millisecond)
		}}
		cache := newCache(t, source)
		impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		left := make(chan error, 1)
		go func() {
			_, err := cache.Observe(impatient)
			left <- err
		}()
		synctest.Wait()
		if _, err := cache.Observe(t.Context()); err != nil {
			t.Errorf("the patient caller got %v", err)
		}
		if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the impatient caller got %v", err)
		}
		if n := source.reads.Load(); n != 1 {
			t.Errorf("%d reads, want 1", n)
		}
	})
}

func TestCacheKeepsTheLastSnapshotThroughAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := false
		source := &scripted{}
		source.next = func(context.Context) (ui.Snapshot, error) {
			if down {
				return ui.Snapshot{}, errDown
			}
			return cluster(3), nil
		}
		cache := newCache(t, source)
		if _, err := cache.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		down = true
		advance(t, 2*time.Second)
		seen, err := cache.Observe(t.Context())
		if err != nil || seen.Stale || !errors.Is(seen.Err, errDown) || len(seen.Partitions) != 3 || seen.Age != 2*time.Second {
			t.Errorf("after 2 s: %v old, stale %v, cause %v, error %v", seen.Age, seen.Stale, seen.Err, err)
		}
		reads := source.reads.Load()
		if _, err := cache.Observe(t.Context()); err != nil || source.reads.Load() != reads {
			t.Error("a failed read was repeated at once")
		}
		advance(t, 14*time.Second)
		if seen, err = cache.Observe(t.Context()); err != nil || !seen.Stale {
			t.Errorf("after 16 s: stale %v, error %v", seen.Stale, err)
		}
		if _, err := cache.Snapshot(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("Snapshot gives %v for a stale snapshot", err)
		}
		down = false
		advance(t, time.Second)
		if seen, err = cache.Observe(t.Context()); err != nil || seen.Stale || seen.Err != nil {
			t.Errorf("after the outage: stale %v, cause %v, error %v", seen.Stale, seen.Err, err)
		}
	})
}

func TestCacheGivesUpOnASourceThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache := newCache(t, &scripted{next: func(ctx context.Context) (ui.Snapshot, error) {
			<-ctx.Done()
			return ui.Snapshot{}, ctx.Err()
		}})
		began := time.Now()
		_, err := cache.Observe(t.Context())
		if !errors.Is(err, ui.ErrNoSnapshot) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
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
