package loop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
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

// Look asks what the stream holds and whether it still fits, and has the relay pause while it does not: whoever runs a relay calls
// it now and then. Its error is the broker's; what the stream lacks is in the extent.
func (r *Relay) Look(ctx context.Context) (delivery.Extent, error) {
	now, err := r.publisher.Extent(ctx)
	if err == nil {
		r.mail.post(looked{now})
	}
	return now, err
}

// fit takes note of how the stream is set. Records must be written anew before it lets them expire.
func (r *Relay) fit(now delivery.Extent) {
	gone, aged := r.unfit != nil && now.Unfit == nil, now.MaxAge != r.maxAge
	r.unfit, r.maxAge = now.Unfit, now.MaxAge
	if aged {
		for _, f := range r.partitions {
			f.retake()
		}
	}
	if gone {
		r.pause.until = time.Time{}
		r.stats.pausedUntil.set(time.Time{})
	}
	if gone || aged {
		r.wakeAll()
	}
}

// Hold has the relay claim nothing while err is what does not hold; nil: go on.
func (r *Relay) Hold(err error) {
	r.mail.post(heldUp{err})
}

// misconfigured takes an answer that hints at a setting: one that the stream has lost may come back, others end the relay once the
// stream is seen to fit.
func (r *Relay) misconfigured(err error) {
	r.begin(func() report {
		ctx, cancel := context.WithTimeout(context.Background(), r.cfg.StatementTimeout)
		defer cancel()
		now, unknown := r.publisher.Extent(ctx)
		return doubted{err, now, unknown}
	})
}

// mayHeal looks at the stream after what it lost was read: what its settings have it drop would be healed again and again. It
// returns for how long the stream keeps a message: what is older is not lost.
func (t *takeover) mayHeal(ctx context.Context) (age time.Duration, err error) {
	now, err := t.Look(ctx)
	if err == nil && now.Unfit != nil {
		err = fmt.Errorf("%w: nothing is published again: %w", delivery.ErrOutage, now.Unfit)
	}
	return now.MaxAge, err
}

// flowing is the longest age of a success for which a failure concerns only its own
// partition, and not the broker or the database as a whole.
const flowing = time.Second

// away notes a failure that no message caused: the whole relay waits.
func (r *Relay) away(err error) {
	r.stats.failure(err)
	r.cfg.Board.Report(condition.Delivery, err)
	for id := range r.partitions { // the reason of one that paused alone may be out of date, and would hide this one
		r.resume(id)
	}
	if wait, counted := r.pause.fail(); counted {
		r.stats.pausedUntil.set(r.pause.until)
		r.log.Warn("delivery pauses", "error", err, "for", wait.Round(time.Millisecond), "failures", r.pause.failures)
	}
}

// unpublished notes that a partition's batch could not be published, or not all
// of it, for no fault of the messages. While other partitions flow, only this one waits.
func (r *Relay) unpublished(id partition.ID, err error) {
	alone := r.Flows()
	if alone {
		p := &r.stateAt(id).alone
		if wait, counted := p.fail(); counted {
			r.log.Warn("a partition pauses", "partition", id, "error", err, "for", wait.Round(time.Millisecond), "failures", p.failures)
		}
	}
	if alone {
		r.stats.failure(err)
		r.cfg.Board.ReportFor(boardName(id), err, alonePauses)
		return
	}
	r.away(err)
}

// boardName is the source under which a partition reports that pauses alone.
func boardName(id partition.ID) string { return fmt.Sprintf("partition %d", id) }

// alonePauses bounds the report of a partition that pauses alone, unless it fails
// again: what failed may not be to deliver any more.
const alonePauses = time.Minute

// refusedFor bounds the time for which a refusal of the fence counts, unless it comes again: most
// concern an owner that was replaced, and then nothing is wrong.
const refusedFor = 5 * time.Second

// refusedByFence notes that the stream knows a newer owner of the partition: said once that
// is how a fence works, again and again it keeps everybody from delivering.
func (r *Relay) refusedByFence(id partition.ID, err error) {
	f := r.stateAt(id)
	f.refusals++
	again := f.refusals > 1
	if again {
		r.cfg.Board.ReportFor("fence of "+boardName(id), err, refusedFor)
	}
}

// notRefused ends what refusedByFence began: the partition was taken.
func (r *Relay) notRefused(id partition.ID) {
	if f := r.stateAt(id); f.refusals > 0 {
		f.refusals = 0
		r.cfg.Board.Report("fence of "+boardName(id), nil)
	}
}

// idle notes a look that asked for everything held and found nothing: whatever had
// failed is not to be delivered here any more.
func (r *Relay) idle() {
	r.goOn()
	for id := range r.partitions {
		r.resume(id)
	}
}

// Flows reports whether any message was published within the last second.
func (r *Relay) Flows() bool { return time.Since(r.stats.flowed.get()) < flowing }

func (r *Relay) succeeded(id partition.ID) {
	r.stats.flowed.set(time.Now())
	r.resume(id)
	r.goOn()
}

func (r *Relay) resume(id partition.ID) {
	if f := r.stateAt(id); f.alone.failures > 0 {
		f.alone = pause{}
		r.cfg.Board.Report(boardName(id), nil)
	}
}

func (r *Relay) goOn() {
	r.cfg.Board.Report(condition.Delivery, nil)
	if r.pause.failures > 0 && r.pause.over() {
		r.log.Info("delivery goes on", "failures", r.pause.failures)
		r.pause = pause{}
		r.stats.pausedUntil.set(time.Time{})
	}
}

// outageWait grows from 50 ms to 2 s with each round in which nothing could be
// published, and is spread by equal jitter: after an outage of any length
// delivery goes on within 2 s.
func outageWait(rounds int) time.Duration {
	p := delivery.RetryPolicy{Base: 50 * time.Millisecond, Factor: 2, Max: 2 * time.Second, Jitter: delivery.JitterEqual}
	return p.Delay(rounds, rand.Float64)
}
