package inbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
)

// reader is one run of a Consumer.
type reader struct {
	*Consumer

	id    uuid.UUID
	count int // of lanes
	log   *slog.Logger
	slots chan struct{}

	silence silences // its membership's

	mu    sync.Mutex
	lanes map[int]*lane
	// created is when the stream was made that the pass reads.
	created time.Time
	// read is up to where the pass that is under way has come.
	read mark
	// furthest is what a lane was given last before this pass began.
	furthest mark
	// ahead is the size of what lanes were handed and did not deal with; room is signalled when it falls.
	ahead int
	room  chan struct{}
	// endPass ends the pass, so that another begins; nil between two.
	endPass context.CancelFunc
	// fresh is signalled when a pass is wanted.
	fresh chan struct{}

	background sync.WaitGroup
}

func newReader(ctx context.Context, c *Consumer) (*reader, error) {
	state, err := c.prepare(ctx, mark{}, time.Time{})
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	own := *c
	own.cfg.Lanes = state.lanes // also where the database forgets how many they were
	return &reader{
		Consumer: &own, id: id, count: state.lanes,
		log:   c.box.cfg.Logger.With("consumer", c.box.cfg.Name, "reader", id),
		slots: make(chan struct{}, c.cfg.Workers),
		lanes: map[int]*lane{}, fresh: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}, nil
}

// run reads until the context ends.
func (r *reader) run(ctx context.Context) error {
	// Transactions in flight outlive the context by DrainTimeout.
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var loops sync.WaitGroup
	loops.Go(func() { r.pump(ctx) })
	loops.Go(func() { r.member(ctx, work) })
	loops.Go(func() { r.retries(ctx) })
	loops.Go(func() { r.housekeeping(ctx) })
	<-ctx.Done()
	deadline := time.AfterFunc(r.cfg.DrainTimeout, cut)
	defer deadline.Stop()
	loops.Wait()
	r.mu.Lock()
	for _, l := range r.lanes {
		r.releaseLocked(work, l)
	}
	r.mu.Unlock()
	r.background.Wait()
	r.leave(ctx)
	return nil
}

// retries runs what is due, until the context ends.
func (r *reader) retries(ctx context.Context) {
	r.every(ctx, r.cfg.Interval, func() {
		if _, err := r.box.RetryDue(ctx, retriesAtOnce, r.handle); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "retries failed", "error", err)
		}
	})
}

const (
	retriesAtOnce  = 1000
	housekeepEvery = 15 * time.Second
	purgeEvery     = 5 * time.Minute
)

// housekeeping counts and purges.
func (r *reader) housekeeping(ctx context.Context) {
	var purged time.Time
	r.every(ctx, housekeepEvery, func() {
		if err := r.box.count(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "parked messages could not be counted", "error", err)
		}
		r.measureLag(ctx)
		if time.Since(purged) > purgeEvery {
			purged = time.Now()
			if _, err := r.box.Purge(ctx); err != nil && ctx.Err() == nil {
				r.log.WarnContext(ctx, "purge failed", "error", err)
			}
			// Readers that died did not sign off.
			if err := r.signOff(ctx, uuid.Nil); err != nil && ctx.Err() == nil {
				r.log.WarnContext(ctx, "purge failed", "error", err)
			}
		}
	})
}

func (r *reader) measureLag(ctx context.Context) {
	r.mu.Lock()
	read := r.read
	r.mu.Unlock()
	stream, err := r.js.Stream(ctx, r.cfg.Stream)
	if err != nil {
		return // it is away
	}
	info := stream.CachedInfo()
	last := info.State.LastSeq
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.created.IsZero() && !r.created.Equal(info.Created) {
		r.passLocked() // it was made anew: its sequences mean nothing any more
	} else if last < read.sequence {
		r.passLocked() // it has lost messages
	}
	slowest := last
	for _, l := range r.lanes {
		slowest = min(slowest, l.positionLocked(r.read).sequence)
	}
	r.box.metrics.lag.Set(float64(last - slowest))
	r.box.metrics.reads.Set(float64(r.read.sequence))
}

// every calls do at once and then at this interval, until the context ends.
func (r *reader) every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
