package delivery

import (
	"context"
	"time"

	"github.com/postrider/postrider/partition"
)

// pause is a wait that grows with each failure and ends with a success.
type pause struct {
	failures int
	until    time.Time
}

func (p *pause) over() bool { return !time.Now().Before(p.until) }

// fail notes a failure and returns how long it is waited for. Failures while it
// waits count once.
func (p *pause) fail() (wait time.Duration, counted bool) {
	if !p.over() {
		return 0, false
	}
	p.failures++
	wait = outageWait(p.failures)
	p.until = time.Now().Add(wait)
	return wait, true
}

// flowing is how recent a success must be for a failure to concern only its own
// partition, and not the broker or the database as a whole.
const flowing = time.Second

// away notes a failure that no message caused: the whole relay waits.
func (r *Relay) away(err error) {
	r.stats.failure(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait, counted := r.pause.fail(); counted {
		r.log.Warn("delivery pauses", "error", err, "for", wait.Round(time.Millisecond), "failures", r.pause.failures)
	}
}

// unpublished notes that a partition's batch could not be published, or not all
// of it, for no fault of the messages. While other partitions flow, only this one waits.
func (r *Relay) unpublished(id partition.ID, err error) {
	r.mu.Lock()
	alone := time.Since(r.flowed) < flowing
	if alone {
		p := r.waiting[id]
		if p == nil {
			p = &pause{}
			r.waiting[id] = p
		}
		if wait, counted := p.fail(); counted {
			r.log.Warn("a partition pauses", "partition", id, "error", err, "for", wait.Round(time.Millisecond), "failures", p.failures)
		}
	}
	r.mu.Unlock()
	if alone {
		r.stats.failure(err)
		return
	}
	r.away(err)
}

// flows notes a success.
func (r *Relay) flows(id partition.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flowed = time.Now()
	delete(r.waiting, id)
	if r.pause.failures > 0 && r.pause.over() {
		r.log.Info("delivery goes on", "failures", r.pause.failures)
		r.pause = pause{}
	}
}

// longestBreather bounds what pacing adds to the latency.
const longestBreather = 5 * time.Millisecond

// breather is when the outbox may be looked at again after a look that began then
// and found so many messages. One that found little is followed by a rest as long
// as it took: what comes meanwhile shares the next one, and a database that is slow
// is asked less often.
func (r *Relay) breather(began time.Time, found int) time.Time {
	now := time.Now()
	if found >= r.cfg.BatchSize {
		return now
	}
	return now.Add(min(now.Sub(began), longestBreather))
}

// sitOut waits until the pause is over and that time has come, or returns the
// context's error.
func (r *Relay) sitOut(ctx context.Context, earliest time.Time) error {
	r.mu.Lock()
	wait := max(time.Until(r.pause.until), time.Until(earliest))
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
