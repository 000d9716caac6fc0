package pg

import (
	"context"
	"sync"
	"time"
)

// Steady is the tolerance: a lease or a sign of life that ends later than it can, and by more, was written before the clock stepped back.
const Steady = time.Second

// Watch measures how long rows stay the same, by this process's monotonic clock: no wall clock that steps makes them older or younger. The
// zero value is ready; it is safe for concurrent use.
type Watch[K, V comparable] struct {
	mu   sync.Mutex
	seen map[K]sighting[V]
}

type sighting[V comparable] struct {
	value V
	first time.Time
	quiet bool
}

// Round is one look at all rows.
type Round[K, V comparable] struct {
	watch *Watch[K, V]
	asked time.Time
	seen  map[K]sighting[V]
}

// Begin comes before the statement that reads the rows.
func (w *Watch[K, V]) Begin() *Round[K, V] { return &Round[K, V]{watch: w, asked: time.Now()} }

// Same notes a row's value, and returns the least time for which it has held that.
func (r *Round[K, V]) Same(key K, value V) time.Duration {
	r.watch.mu.Lock()
	s, known := r.watch.seen[key]
	r.watch.mu.Unlock()
	if !known || s.value != value {
		s = sighting[V]{value: value, first: time.Now()}
	}
	if r.seen == nil {
		r.seen = map[K]sighting[V]{}
	}
	r.seen[key] = s
	return max(0, r.asked.Sub(s.first))
}

// Mark makes Silent return a row that was noted in this round.
func (r *Round[K, V]) Mark(key K) {
	s := r.seen[key]
	s.quiet = true
	r.seen[key] = s
}

// End forgets the rows that were not noted in this round.
func (r *Round[K, V]) End() {
	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	r.watch.seen = r.seen
}

// Silent returns a marked row's value.
func (w *Watch[K, V]) Silent(key K) (value V, quiet bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seen[key]
	return s.value, s.quiet
}

// Sign is a row's claim that its writer is there until then, by the database's clock.
type Sign[K comparable] struct {
	Key   K
	Until time.Time
	Ahead *time.Duration // of one that ends later than it can: its term
}

// awaitInterval is the time between two looks at signs that are watched.
const awaitInterval = 100 * time.Millisecond

// Await watches signs that end later than they can, until each was written anew, is gone, or has been silent for its term. It returns at once
// where one counts for certain, with those that count.
func Await[K comparable](ctx context.Context, look func(context.Context) ([]Sign[K], error)) (standing, silent []Sign[K], err error) {
	var watch Watch[K, time.Time]
	for {
		round := watch.Begin()
		all, err := look(ctx)
		if err != nil {
			return nil, nil, err
		}
		doubted := false
		standing, silent = nil, nil
		for _, sign := range all {
			switch {
			case sign.Ahead == nil:
				standing = append(standing, sign)
			case round.Same(sign.Key, sign.Until) >= *sign.Ahead:
				silent = append(silent, sign)
			default:
				doubted = true
			}
		}
		round.End()
		if len(standing) > 0 || !doubted {
			return standing, silent, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-time.After(awaitInterval):
		}
	}
}
