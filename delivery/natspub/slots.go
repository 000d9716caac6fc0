package natspub

import (
	"context"
	"sync"

	"github.com/postrider/postrider/delivery/natspub/wire"
)

const (
	// mostSlots bounds the batches of a process in flight, however many the stream admits.
	mostSlots = 16
	// roomier batches in a row are admitted before one more is tried.
	roomier = 200
)

// slots bounds the batches in flight. All processes share the stream's limit, which no server tells: each begins with its share, takes
// fewer when the stream refuses a batch for that reason, and gradually more while it does not.
type slots struct {
	share func() int

	mu       sync.Mutex
	used     int
	most     int
	of       int           // the share that most began with
	admitted int           // batches in a row, of those that might have been more
	short    bool          // somebody had to wait
	freed    chan struct{} // closed and replaced when a slot becomes free
}

func newSlots(share func() int) *slots { return &slots{share: share, freed: make(chan struct{})} }

// enter waits for a slot; false means that ctx ended first.
func (s *slots) enter(ctx context.Context) bool {
	for {
		s.mu.Lock()
		if share := max(1, s.share()); share != s.of { // others came or went
			s.of, s.most, s.admitted = share, share, 0
		}
		if s.used < s.most {
			s.used++
			s.mu.Unlock()
			return true
		}
		s.short = true
		freed := s.freed
		s.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// leave gives a slot back, with its batch's answer.
func (s *slots) leave(ans wire.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	close(s.freed)
	s.freed = make(chan struct{})
	switch {
	case wire.Refusal(ans.Err) == wire.CodeBatchTooMany:
		s.most, s.admitted, s.short = max(1, s.most/2), 0, false
	case ans.Err == nil && s.short:
		if s.admitted++; s.admitted >= roomier {
			s.most, s.admitted, s.short = min(s.most+1, max(s.of, mostSlots)), 0, false
		}
	}
}
