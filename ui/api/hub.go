package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/postrider/postrider/ui/source"
)

var (
	errTooManyStreams = errors.New("too many event streams are open")
	errStreamsClosed  = errors.New("the monitor is shutting down")
)

// hub reads one snapshot an interval while a stream is open, and passes it to all streams. Its goroutine lives from the first subscription
// to the last departure.
type hub struct {
	cache *source.Cache
	limit int

	mu          sync.Mutex
	subscribers map[*subscriber]struct{}
	stop        context.CancelFunc
	closed      bool
}

// subscriber is one open stream. Its channel holds only the newest observation: a slow reader misses some, and costs nothing.
type subscriber struct {
	news chan source.Observation
	// gone is closed when the hub ends the stream.
	gone chan struct{}
}

func newHub(cache *source.Cache, limit int) *hub {
	return &hub{cache: cache, limit: limit, subscribers: map[*subscriber]struct{}{}}
}

func (h *hub) subscribe() (*subscriber, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, errStreamsClosed
	case len(h.subscribers) >= h.limit:
		return nil, errTooManyStreams
	}
	s := &subscriber{news: make(chan source.Observation, 1), gone: make(chan struct{})}
	h.subscribers[s] = struct{}{}
	if len(h.subscribers) == 1 {
		ctx, cancel := context.WithCancel(context.Background())
		h.stop = cancel
		go h.run(ctx)
	}
	return s, nil
}

func (h *hub) unsubscribe(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.subscribers[s]; !known {
		return
	}
	delete(h.subscribers, s)
	if len(h.subscribers) == 0 {
		h.stop()
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.subscribers {
		close(s.gone)
		delete(h.subscribers, s)
	}
	if h.stop != nil {
		h.stop()
	}
}

func (h *hub) run(ctx context.Context) {
	interval := h.cache.Interval()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		// Half an interval: a tick comes a little before the last snapshot is due.
		if seen, err := h.cache.ObserveWithin(ctx, interval/2); err == nil && !seen.Stale {
			h.broadcast(seen)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *hub) broadcast(seen source.Observation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subscribers {
		select {
		case <-s.news:
		default:
		}
		// Only the hub sends, under its lock, so there is room now.
		s.news <- seen
	}
}
