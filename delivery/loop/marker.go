package loop

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/partition"
)

const (
	// lingerLate puts off a mark that nobody waits for: the more batches it holds
	// the less each costs.
	lingerLate = 10 * time.Millisecond
	// linger puts off a mark that its partition waits for: batches that are answered
	// together are marked together.
	linger = 250 * time.Microsecond
)

// marker queues batches for marks (ADR 27). One mark is under way at a time, but for those that failed.
type marker struct {
	terms    []*term // that have batches which no mark holds, each once
	messages int     // of these batches
	due      time.Time
	underWay bool
}

// add has a batch marked in its turn, not later than after that time.
func (m *marker) add(c *inflight, within time.Duration) {
	t := c.term
	t.unmarked = append(t.unmarked, c)
	m.list(t, c.messages, within)
}

// list queues the term's batches, of which so many messages are new.
func (m *marker) list(t *term, messages int, within time.Duration) {
	if t.inMark > 0 { // comes when these are marked
		return
	}
	due := time.Now().Add(within)
	if len(m.terms) == 0 || due.Before(m.due) {
		m.due = due
	}
	m.messages += messages
	if !t.queued {
		t.queued, m.terms = true, append(m.terms, t)
	}
}

// waiting reports whether any batch waits for a mark.
func (m *marker) waiting() bool { return len(m.terms) > 0 }

// before shortens a wait to when the next mark is due.
func (m *marker) before(wait time.Duration) time.Duration {
	if m.underWay || !m.waiting() {
		return wait
	}
	return max(0, min(wait, time.Until(m.due)))
}

// mark begins a mark of all that waits for one, if it is due; at the zero time it always is.
func (r *Relay) mark(ctx context.Context, now time.Time) (begun bool) {
	m := &r.marks
	if m.underWay || !m.waiting() || !now.IsZero() && now.Before(m.due) && m.messages < r.cfg.BatchSize {
		return false
	}
	var group, left []*term
	seen := make(map[partition.ID]bool, len(m.terms))
	for _, t := range m.terms { // of a partition one at a time, in their order
		if id := t.lease.Partition; seen[id] {
			left = append(left, t)
		} else {
			seen[id], t.queued, group = true, false, append(group, t)
		}
	}
	*m = marker{underWay: true, terms: left}
	results := make([]delivery.Result, len(group))
	for i, t := range group {
		results[i] = t.result()
	}
	r.begin(func() report {
		fenced, err := r.tryMark(ctx, results)
		return marked{group, results, fenced, err}
	})
	return true
}

// result is everything of a term that is to be marked.
func (t *term) result() delivery.Result {
	t.inMark = len(t.unmarked)
	res := t.unmarked[0].Result
	res.Revision = t.revision
	if len(t.unmarked) > 1 {
		res.Batch.Messages, res.Outcomes = nil, nil
		for _, c := range t.unmarked {
			res.Batch.Messages, res.Outcomes = append(res.Batch.Messages, c.Batch.Messages...), append(res.Outcomes, c.Outcomes...)
		}
	}
	return res
}

// noteMark notes a mark that was made.
func (r *Relay) noteMark(t *term, res delivery.Result) {
	for _, c := range t.unmarked[:t.inMark] {
		if !c.late {
			t.progress(c.Result)
		}
	}
	t.noted(res)
	r.endMark(t)
}

// endMark ends a mark of a term, whatever came of it.
func (r *Relay) endMark(t *term) {
	over := t.unmarked[:t.inMark]
	t.unmarked, t.inMark = slices.Clone(t.unmarked[t.inMark:]), 0
	for _, c := range over {
		r.complete(c)
	}
	if f := r.stateAt(t.lease.Partition); f.term == t && f.state == fresh && len(t.unmarked) == 0 { // it may be taken now
		f.requested, r.woken = true, true
	}
	for _, c := range t.unmarked {
		r.marks.list(t, c.messages, linger)
	}
}

// complete ends a batch. What is left of very large payloads goes before the next ones are read: the
// collector by itself would let them gather.
func (r *Relay) complete(c *inflight) {
	if c.bytes > r.cfg.WindowBytes/2 {
		runtime.GC()
	}
	if !c.late {
		r.free(r.stateOf(c.Batch.Lease), c.Batch.More)
	}
	r.giveBack(c.messages, c.bytes)
	c.Batch.Lease.Leave()
}

// free has a partition claimed again, at once if more waits than the batch held.
func (r *Relay) free(f *partitionState, more bool) {
	again := f.more || more
	f.end(true)
	f.requested = f.requested || again
	r.woken = r.woken || again
}

// giveBack returns what a batch took of the window. Where it was full everything is looked at.
func (r *Relay) giveBack(messages int, bytes int64) {
	if r.room < r.cfg.BatchSize || r.bytes <= 0 {
		r.wakeAll()
	}
	r.room += messages
	r.bytes += bytes
	r.stats.inFlight.Store(int64(r.cfg.Window - r.room))
}

// markAlone marks what failed to be marked with others, again and again while the lease is trusted and
// the relay runs: until then nobody else can have published the rows again.
func (r *Relay) markAlone(t *term, res delivery.Result) {
	id, stopping := t.lease.Partition, r.stopping
	r.begin(func() report {
		for failures := 1; t.lease.Valid(); failures++ {
			fenced, err := r.tryMark(context.Background(), []delivery.Result{res})
			forgotten := errors.Is(err, delivery.ErrForgotten)
			if forgotten {
				err = nil
			}
			r.cfg.Board.ReportFor("marks of "+boardName(id), err, alonePauses)
			switch {
			case forgotten: // who takes the partition anew sees what the stream holds
				r.log.Info("a batch is not marked: the database has forgotten marks of the partition, is another server or was started again",
					"partition", id, "messages", len(res.Outcomes))
				return markedAlone{t, res, markForgotten}
			case err == nil && len(fenced) == 0:
				return markedAlone{t, res, markMade}
			case err == nil:
				return markedAlone{t, res, markFenced}
			}
			r.log.Warn("mark failed; trying again while the lease is ours", "error", err, "partition", id, "failures", failures)
			timer := time.NewTimer(outageWait(failures))
			select {
			case <-timer.C:
				continue
			case <-stopping:
				timer.Stop()
			}
			break
		}
		r.cfg.Board.Report("marks of "+boardName(id), nil) // they are the heir's
		return markedAlone{t, res, markGivenUp}
	})
}

// unmarkable has a partition taken anew, of whose marks the database has forgotten some: what is
// left to be marked is known to the stream alone.
func (r *Relay) unmarkable(t *term) {
	t.inMark = len(t.unmarked)
	if f := r.stateAt(t.lease.Partition); f.term == t {
		f.retake()
	}
	r.endMark(t)
}

// tryMark marks once and ends the leases that turned out to be fenced.
func (r *Relay) tryMark(ctx context.Context, results []delivery.Result) (fenced []partition.ID, err error) {
	// What was published is marked even when the relay is told to stop.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.StatementTimeout)
	defer cancel()
	began := r.clock()
	fenced, err = r.store.Mark(ctx, results, r.cfg.Retry, r.cfg.Random)
	if r.cfg.Observer != nil {
		r.cfg.Observer.Marked(began, results, err)
	}
	if err != nil {
		r.stats.failure(err)
		return nil, err
	}
	for _, res := range results {
		if slices.Contains(fenced, res.Batch.Lease.Partition) {
			r.stats.fenced.Add(int64(len(res.Outcomes)))
			r.log.Warn("fenced: the lease went to another worker; nothing was changed",
				"partition", res.Batch.Lease.Partition, "epoch", res.Batch.Lease.Epoch, "messages", len(res.Outcomes))
			res.Batch.Lease.Lost()
			continue
		}
		r.stats.completed(res, r.cfg.Retry)
		r.died(res)
	}
	return fenced, nil
}

// died logs the messages that wait for a person from now on, each once.
func (r *Relay) died(res delivery.Result) {
	for i, o := range res.Outcomes {
		if !r.cfg.Retry.Dies(res.Batch.Messages[i], o) {
			continue
		}
		m, kind := res.Batch.Messages[i], ""
		if m.Event != nil {
			kind = m.Event.Type
		}
		r.log.Warn("a message died", "sequence", m.Sequence, "stream", m.Stream, "topic", m.Topic, "type", kind,
			"partition", m.Partition, "attempts", m.Attempts+1, "reason", delivery.Reason(o.Err))
	}
}
