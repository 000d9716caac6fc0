package pg

import (
	"sync"
	"time"
)

// Steady is how much a clock may be off without a word: a lease or a sign of life that ends by more than that later than
// it can was written before the database's clock stepped back.
const Steady = time.Second

// Watch tells for how long rows have stayed as they are, by this process's monotonic clock: no wall clock that steps
// makes them older or younger. The zero value is ready; it is safe for concurrent use.
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

// Same notes what a row holds, and returns for how long it has held that at least.
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

// Mark has Silent tell of a row that was noted in this round.
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

// Silent returns what a marked row held.
func (w *Watch[K, V]) Silent(key K) (value V, quiet bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seen[key]
	return s.value, s.quiet
}
