package source

import (
	"context"
	"sync"
	"time"
)

// askedReady bounds a page's wait for the process's own readiness.
const askedReady = 2 * time.Second

// Readiness caches the process's own readiness. Pages share one answer a second, as they share a snapshot.
type Readiness struct {
	ready func(context.Context) error
	every time.Duration

	mu    sync.Mutex
	asked time.Time
	text  string
}

// NewReadiness asks ready at most once an interval of the cache.
func NewReadiness(ready func(context.Context) error, cache *Cache) *Readiness {
	return &Readiness{ready: ready, every: cache.config.Interval}
}

// NotReady says why this process is not ready, empty when it is.
func (r *Readiness) NotReady(ctx context.Context) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked.IsZero() && time.Since(r.asked) < r.every {
		return r.text
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askedReady)
	defer cancel()
	r.text = ""
	if err := r.ready(ctx); err != nil {
		r.text = Scrub(err.Error())
	}
	r.asked = time.Now()
	return r.text
}

// Because adds the process's own fault to a complaint.
func (r *Readiness) Because(ctx context.Context) string {
	if reason := r.NotReady(ctx); reason != "" {
		return " This process is not ready: " + reason
	}
	return ""
}
