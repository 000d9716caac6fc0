package lease

import (
	"slices"
	"sync"

	"github.com/postrider/postrider/partition"
)

// Set has the current leases of a worker. It is safe for concurrent use.
type Set struct {
	mu      sync.Mutex
	held    map[partition.ID]*Lease
	leaving map[partition.ID]*Lease // ended, with work still inside
	changed chan struct{}
}

func newSet() *Set {
	return &Set{
		held:    map[partition.ID]*Lease{},
		leaving: map[partition.ID]*Lease{},
		changed: make(chan struct{}, 1),
	}
}

// Held returns the leases that are alive, by partition.
func (s *Set) Held() []*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	leases := make([]*Lease, 0, len(s.held))
	for _, l := range s.held {
		leases = append(leases, l)
	}
	slices.SortFunc(leases, func(a, b *Lease) int { return int(a.Partition) - int(b.Partition) })
	return leases
}

// Get returns the living lease of a partition, or nil.
func (s *Set) Get(id partition.ID) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.held[id]; l != nil && l.ctx.Err() == nil {
		return l
	}
	return nil
}

// Len returns the number of leases that are alive.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	return len(s.held)
}

// Changed receives after leases were added. There is one receiver.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// sweepLocked moves the leases that ended by themselves out of the way.
func (s *Set) sweepLocked() {
	for id, l := range s.held {
		if l.ctx.Err() != nil {
			delete(s.held, id)
			s.leaving[id] = l
		}
	}
	for id, l := range s.leaving {
		select {
		case <-l.idle:
			delete(s.leaving, id)
		default:
		}
	}
}

// free returns the partitions without work of an older lease here.
func (s *Set) free(ids []partition.ID) []partition.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	return slices.DeleteFunc(slices.Clone(ids), func(id partition.ID) bool { return s.held[id] != nil || s.leaving[id] != nil })
}

func (s *Set) add(leases []*Lease) {
	if len(leases) == 0 {
		return
	}
	s.mu.Lock()
	for _, l := range leases {
		s.held[l.Partition] = l
	}
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
