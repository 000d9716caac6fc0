package delivery

import (
	"context"
	"time"
)

// pause keeps the relay from claiming while the broker or the database is away.
// It grows with each failure and ends with the first success.
type pause struct {
	failures int
	until    time.Time
}

func (p *pause) over() bool { return !time.Now().Before(p.until) }

// away notes a failure that no message caused. Batches that failed together
// count once.
func (r *Relay) away(err error) {
	r.stats.failure(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.pause.over() {
		return
	}
	r.pause.failures++
	wait := outageWait(r.pause.failures)
	r.pause.until = time.Now().Add(wait)
	r.log.Warn("delivery pauses", "error", err, "for", wait.Round(time.Millisecond), "failures", r.pause.failures)
}

// back notes a success.
func (r *Relay) back() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pause.failures > 0 && r.pause.over() {
		r.log.Info("delivery goes on", "failures", r.pause.failures)
		r.pause = pause{}
	}
}

// sitOut waits until the pause is over, or returns the context's error.
func (r *Relay) sitOut(ctx context.Context) error {
	r.mu.Lock()
	wait := time.Until(r.pause.until)
	r.mu.Unlock()
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
