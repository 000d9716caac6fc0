package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/condition"
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
	r.cfg.Board.Report(condition.Delivery, err)
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
		p := &r.flowAtLocked(id).alone
		if wait, counted := p.fail(); counted {
			r.log.Warn("a partition pauses", "partition", id, "error", err, "for", wait.Round(time.Millisecond), "failures", p.failures)
		}
	}
	r.mu.Unlock()
	if alone {
		r.stats.failure(err)
		r.cfg.Board.ReportFor(boardName(id), err, alonePauses)
		return
	}
	r.away(err)
}

// boardName is the source under which a partition reports that pauses alone.
func boardName(id partition.ID) string { return fmt.Sprintf("partition %d", id) }

// alonePauses is how long a partition that pauses alone is told of, unless it fails
// again: it may have gone to another worker.
const alonePauses = time.Minute

// refusedFor is how long a refusal of the fence counts, unless it comes again: most
// concern an owner that was replaced, and then nothing is wrong.
const refusedFor = 5 * time.Second

// refusedByFence notes that the stream knows a newer owner of the partition: said once that
// is how a fence works, again and again it keeps everybody from delivering.
func (r *Relay) refusedByFence(id partition.ID, err error) {
	r.mu.Lock()
	f := r.flowAtLocked(id)
	f.refusals++
	again := f.refusals > 1
	r.mu.Unlock()
	if again {
		r.cfg.Board.ReportFor("fence of "+boardName(id), err, refusedFor)
	}
}

// notRefused ends what refusedByFence began: the partition was taken.
func (r *Relay) notRefused(id partition.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.flowAtLocked(id); f.refusals > 0 {
		f.refusals = 0
		r.cfg.Board.Report("fence of "+boardName(id), nil)
	}
}

// idle notes a look that asked for everything held and found nothing: whatever had
// failed is not to be delivered here any more.
func (r *Relay) idle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.goOnLocked()
	for id := range r.flows {
		r.resumeLocked(id)
	}
}

// Flows tells whether anything was published within the last second.
func (r *Relay) Flows() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.flowed) < flowing
}

// succeeded notes a success.
func (r *Relay) succeeded(id partition.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flowed = time.Now()
	r.resumeLocked(id)
	r.goOnLocked()
}

// resumeLocked ends the pause of one partition.
func (r *Relay) resumeLocked(id partition.ID) {
	if f := r.flowAtLocked(id); f.alone.failures > 0 {
		f.alone = pause{}
		r.cfg.Board.Report(boardName(id), nil)
	}
}

// goOnLocked ends a pause.
func (r *Relay) goOnLocked() {
	r.cfg.Board.Report(condition.Delivery, nil)
	if r.pause.failures > 0 && r.pause.over() {
		r.log.Info("delivery goes on", "failures", r.pause.failures)
		r.pause = pause{}
	}
}

// longestBreather bounds what pacing adds to the latency for the database's sake.
const longestBreather = 5 * time.Millisecond

// look is what the last look at the outbox came to.
type look struct {
	began, ended time.Time
	asked, found int
	little       bool
}

// full tells that more may wait than was found.
func (l look) full(batch int) bool {
	return l.asked == 0 || l.found >= batch || l.little && l.found >= littleLook
}

// breathe waits before the next look, or returns the context's error. A look that
// found little is followed by a rest as long as it took: what comes meanwhile shares
// the next one, and a database that is slow is asked less often. With a publisher
// that gathers, what it found goes all its way before, if that is soon: until it can
// send again and the marks are made, partitions could not be claimed, or only to wait.
func (r *Relay) breathe(ctx context.Context, last look) error {
	var rested time.Time
	if !last.full(r.cfg.BatchSize) {
		rested = last.ended.Add(min(last.ended.Sub(last.began), longestBreather))
		if p, ok := r.publisher.(Pacer); ok {
			r.await(ctx, r.settledAll(), longestBreather)
			r.await(ctx, p.Ready(), r.cfg.PollInterval)
			r.await(ctx, r.settledAll(), longestBreather)
		}
	}
	r.mu.Lock()
	wait := max(time.Until(r.pause.until), time.Until(rested))
	r.mu.Unlock()
	r.await(ctx, nil, wait)
	return ctx.Err()
}

// await waits for what comes, but only so long.
func (r *Relay) await(ctx context.Context, what <-chan struct{}, most time.Duration) {
	if most <= 0 {
		return
	}
	select { // mostly it is there
	case <-what:
		return
	default:
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-what:
	case <-timer.C:
	}
}

// settledAll returns a channel that is closed when nothing is between claim and mark.
func (r *Relay) settledAll() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cleared == nil {
		r.cleared = make(chan struct{})
	}
	cleared := r.cleared
	r.roomLocked(0)
	return cleared
}
