package source

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/lease"
)

var errDown = errors.New("connection refused")

// scripted is a source whose answers a test decides; it counts the reads.
type scripted struct {
	reads atomic.Int64
	next  func(ctx context.Context) (Snapshot, error)
}

func (s *scripted) Snapshot(ctx context.Context) (Snapshot, error) {
	s.reads.Add(1)
	return s.next(ctx)
}

// Ownership implements Source.
func (s *scripted) Ownership(context.Context, lease.HistoryQuery) (lease.History, error) {
	return lease.History{}, nil
}

func cluster(partitions int) Snapshot { return Snapshot{Partitions: make([]Partition, partitions)} }

func newCache(t *testing.T, source Source) *Cache {
	t.Helper()
	cache, err := NewCache(source, CacheConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

func TestCacheReadsOnceAnInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &scripted{next: func(ctx context.Context) (Snapshot, error) {
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
		source := &scripted{next: func(ctx context.Context) (Snapshot, error) {
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
		source.next = func(context.Context) (Snapshot, error) {
			if down {
				return Snapshot{}, errDown
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
		cache := newCache(t, &scripted{next: func(ctx context.Context) (Snapshot, error) {
			<-ctx.Done()
			return Snapshot{}, ctx.Err()
		}})
		began := time.Now()
		_, err := cache.Observe(t.Context())
		if !errors.Is(err, ErrNoSnapshot) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
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
