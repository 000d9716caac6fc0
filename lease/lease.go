package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/partition"
)

// Causes with which a lease's context ends.
var (
	// ErrLost means that the lease is not, or not certainly, ours any more.
	ErrLost = errors.New("lease lost")
	// ErrReleased means that the lease was given back in good order.
	ErrReleased = errors.New("lease released")
)

// Lease is the right to deliver one partition, for as long as its context lives. It is safe for concurrent use.
type Lease struct {
	// Partition, Owner and Epoch are compared by every write. Owner is uuid.Nil for a worker without leasing.
	Partition partition.ID
	Owner     partition.WorkerID
	Epoch     int64
	// Progress is the row's at the acquisition.
	Progress Progress

	ctx    context.Context //nolint:containedctx // a held lease is a context: that is this type's purpose
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	timer    *time.Timer
	trusted  time.Time // carries the monotonic reading
	inside   int
	draining bool
	idle     chan struct{} // closed when draining or ended, and nothing is inside
}

// Progress is the progress of a partition's earlier owners.
type Progress struct {
	// Delivered is the highest sequence that was settled.
	Delivered int64
	// FenceSequence and StreamSequence are the highest positions in the stream that were recorded, of control messages and of events.
	FenceSequence, StreamSequence uint64
	// StreamLife names the life of the records at these positions.
	StreamLife string
	// Crashes counts owners in a row that ended before they settled anything: the first, and later ones that ended with messages
	// in flight.
	Crashes int
	// Database is the system identifier and timeline of the database; a promoted
	// standby has another timeline, a restored dump another identifier.
	Database string
}

func newLease(id partition.ID, owner partition.WorkerID, epoch int64, progress Progress) *Lease {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Lease{
		Partition: id, Owner: owner, Epoch: epoch, Progress: progress,
		ctx: ctx, cancel: cancel, idle: make(chan struct{}),
	}
}

// Context lives as long as the lease is trusted; its cause is ErrLost or ErrReleased.
func (l *Lease) Context() context.Context { return l.ctx }

// trust extends the local trust to the given instant.
func (l *Lease) trust(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	l.trusted = until
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(until), l.Lost)
		return
	}
	l.timer.Reset(time.Until(until))
}

// Valid reports whether the lease may be used now. It reads the wall clock,
// too: the monotonic clock does not count the time of a suspend.
func (l *Lease) Valid() bool {
	if l.ctx.Err() != nil {
		return false
	}
	l.mu.Lock()
	trusted := l.trusted
	l.mu.Unlock()
	if trusted.IsZero() { // without leasing there is no time to run out
		return true
	}
	now := time.Now()
	if now.After(trusted) || now.Round(0).After(trusted.Round(0)) {
		l.Lost()
		return false
	}
	return true
}

// Enter begins a piece of work under the lease. It refuses when the lease has
// ended or is being drained. Every successful Enter needs one Leave.
func (l *Lease) Enter() bool {
	if !l.Valid() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining || l.ctx.Err() != nil {
		return false
	}
	l.inside++
	return true
}

// Leave ends a piece of work.
func (l *Lease) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside--
	l.settleLocked()
}

// Drain lets no new work in. The channel closes when nothing is inside.
func (l *Lease) Drain() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	l.settleLocked()
	return l.idle
}

// Draining reports whether Drain was called.
func (l *Lease) Draining() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draining
}

// Lost ends the lease when it is not certainly ours any more: trust ran out, or a compare-and-set found another epoch.
func (l *Lease) Lost() { l.end(ErrLost) }

func (l *Lease) end(cause error) {
	l.cancel(cause)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.settleLocked()
}

func (l *Lease) settleLocked() {
	if l.inside > 0 || (!l.draining && l.ctx.Err() == nil) {
		return
	}
	select {
	case <-l.idle:
	default:
		close(l.idle)
	}
}

// Solo reports whether the lease belongs to a worker without leasing.
func (l *Lease) Solo() bool { return l.Owner == uuid.Nil }

// Untimed returns a lease that no time ends, for tests and for deliveries whose exclusiveness is granted elsewhere. Its writes succeed only
// where the lease row carries that owner and epoch.
func Untimed(id partition.ID, owner partition.WorkerID, epoch int64) *Lease {
	return newLease(id, owner, epoch, Progress{})
}

// UntimedSet returns a set of leases that takes no others, for uses of Untimed.
func UntimedSet(leases ...*Lease) *Set {
	s := newSet()
	s.add(leases)
	return s
}
