package faults_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// takeovers measures how long the partitions of workers that died stay theirs.
type takeovers struct {
	cluster *clustertest.Cluster

	mu   sync.Mutex
	dead map[uuid.UUID]*death
	// alone are those during which nobody else died, amid the others: an heir that dies has heirs of its own.
	alone, amid []time.Duration
}

// death is a measurement under way.
type death struct {
	since time.Time
	amid  bool
}

// takeoverLook is the time between two looks, and so the error of what is measured.
const takeoverLook = 20 * time.Millisecond

// watchTakeovers looks until the test ends.
func watchTakeovers(t *testing.T, c *clustertest.Cluster) *takeovers {
	t.Helper()
	w := &takeovers{cluster: c, dead: map[uuid.UUID]*death{}}
	lookEvery(t, takeoverLook, w.look)
	return w
}

// lookEvery looks until the test ends.
func lookEvery(t *testing.T, interval time.Duration, look func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				look(ctx)
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

// died begins a measurement.
func (w *takeovers) died(id uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.dead {
		other.amid = true
	}
	w.dead[id] = &death{since: time.Now(), amid: len(w.dead) > 0}
}

// void gives up the measurements under way: another fault is in the way of takeovers.
func (w *takeovers) void() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.dead)
}

// look ends the measurements of those that hold nothing any more.
func (w *takeovers) look(ctx context.Context) {
	w.mu.Lock()
	waiting := len(w.dead)
	asked := time.Now()
	w.mu.Unlock()
	if waiting == 0 {
		return
	}
	rows, err := w.cluster.Pool.Query(ctx, `SELECT DISTINCT lease_owner FROM outbox_partitions WHERE lease_owner IS NOT NULL`)
	if err != nil {
		return // the database is away
	}
	holders, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, d := range w.dead {
		if !d.since.Before(asked) || slices.Contains(holders, id) {
			continue
		}
		if d.amid {
			w.amid = append(w.amid, time.Since(d.since))
		} else {
			w.alone = append(w.alone, time.Since(d.since))
		}
		delete(w.dead, id)
	}
}

// String gives the medians and the longest.
func (w *takeovers) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("takeovers: %s; amid other deaths: %s", quantiles(w.alone), quantiles(w.amid))
}

func quantiles(list []time.Duration) string {
	if len(list) == 0 {
		return "none"
	}
	p50, longest := middle(list)
	return fmt.Sprintf("%d, p50 %s, longest %s", len(list), p50.Round(time.Millisecond), longest.Round(time.Millisecond))
}

// middle returns the median and the longest; zero of none.
func middle(list []time.Duration) (p50, longest time.Duration) {
	if len(list) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2], sorted[len(sorted)-1]
}
