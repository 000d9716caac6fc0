package natspub

import (
	"context"
	"sync"
)

// slots bounds the batches in flight. The bound may change at any time: all
// replicas share what one stream admits.
type slots struct {
	limit func() int

	mu    sync.Mutex
	used  int
	freed chan struct{} // closed and replaced when a slot becomes free
}

func newSlots(limit func() int) *slots { return &slots{limit: limit, freed: make(chan struct{})} }

// enter waits for a slot; false means that ctx ended first.
func (s *slots) enter(ctx context.Context) bool {
	for {
		s.mu.Lock()
		if s.used < max(1, s.limit()) {
			s.used++
			s.mu.Unlock()
			return true
		}
		freed := s.freed
		s.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

func (s *slots) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	close(s.freed)
	s.freed = make(chan struct{})
}
