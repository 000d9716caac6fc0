package source

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// pacedWait bounds a snapshot's wait for a read of which it has an older value: small outboxes are counted by then.
	pacedWait = 30 * time.Millisecond
	// pacedTimeout bounds one read. A count that takes longer is given up.
	pacedTimeout = time.Minute
)

// paced repeats a read in the background, so that it takes no more than a share of the time. Its zero value is
// ready.
type paced[T any] struct {
	most time.Duration   // bounds the pause between two reads; 0: only the share does
	over <-chan struct{} // ends reads, even those without a caller; nil: never

	mu      sync.Mutex
	last    T
	known   bool  // last was read
	err     error // the latest read's error
	nextDue time.Time
	running chan struct{} // closed when the read under way ends; nil: none is
}

// get returns the last read's value. It starts the next read when that is due, and waits pacedWait for it, or without an older value until
// ctx ends. The next call repeats a failed read; a read that timed out is repeated when its share of the time has passed.
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
		return p.last, nil // old, as its time shows, and all there is
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
