package source

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// pacedWait is how long a snapshot waits for a read that it could do without, having an older one: small outboxes are counted by then.
	pacedWait = 30 * time.Millisecond
	// pacedTimeout bounds one read. A count that takes longer is given up.
	pacedTimeout = time.Minute
)

// paced repeats a read in the background, less often the longer it takes, so that
// it takes no more than a share of the time. Its zero value is ready.
type paced[T any] struct {
	most time.Duration   // between two reads, whatever their share; 0: as long as the share wants
	over <-chan struct{} // ends reads, also those that nobody waits for any more; nil: nothing does

	mu      sync.Mutex
	last    T
	known   bool  // last was read
	err     error // of the latest read
	nextDue time.Time
	running chan struct{} // closed when the read under way is over; nil: none is
}

// get returns what the last read gave. It starts the next one when that is due, and waits for it only for a moment, or for as long as ctx
// lets it when there is nothing older. A read that fails is repeated by the next call, one that took too long when its share of the time
// has passed.
func (p *paced[T]) get(ctx context.Context, share float64, read func(context.Context) (T, error)) (T, error) {
	p.mu.Lock()
	if p.running == nil && !time.Now().Before(p.nextDue) {
		p.running = make(chan struct{})
		go p.run(context.WithoutCancel(ctx), share, read)
	}
	running, known := p.running, p.known
	p.mu.Unlock()
	if running != nil {
		var enough <-chan time.Time
		if known {
			timer := time.NewTimer(pacedWait)
			defer timer.Stop()
			enough = timer.C
		}
		select {
		case <-running:
		case <-enough:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known && errors.Is(p.err, context.DeadlineExceeded) {
		return p.last, nil // old, as it says itself, and all there is
	}
	return p.last, p.err
}

func (p *paced[T]) run(ctx context.Context, share float64, read func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, pacedTimeout)
	defer cancel()
	go func() {
		select {
		case <-p.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	began := time.Now()
	value, err := read(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.last, p.known = value, true
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		pause := time.Duration(float64(time.Since(began)) / share)
		if p.most > 0 {
			pause = min(pause, p.most)
		}
		p.nextDue = began.Add(pause)
	}
	p.err = err
	close(p.running)
	p.running = nil
}
