package delivery

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/postrider/postrider/partition"
)

const (
	// lateMark is how long a mark may be put off that nobody waits for: the more it holds
	// the less each costs.
	lateMark = 10 * time.Millisecond
	// company is how long a mark waits that somebody waits for: what is answered together
	// is marked together.
	company = 250 * time.Microsecond
)

// marker is what is to be marked (ADR 27). One mark is under way at a time, but for those that failed.
type marker struct {
	tenures  []*tenure // that have batches which no mark holds, each once
	messages int       // of these batches
	due      time.Time
	underWay bool
}

// add has a batch marked in its turn, not later than after that time.
func (m *marker) add(c *carried, within time.Duration) {
	t := c.of
	t.unmarked = append(t.unmarked, c)
	m.list(t, c.messages, within)
}

// list has the tenure's batches marked, of which so many messages are new.
func (m *marker) list(t *tenure, messages int, within time.Duration) {
	if t.inHand > 0 { // comes when these are marked
		return
	}
	due := time.Now().Add(within)
	if len(m.tenures) == 0 || due.Before(m.due) {
		m.due = due
	}
	m.messages += messages
	if !t.listed {
		t.listed, m.tenures = true, append(m.tenures, t)
	}
}

// waiting tells whether anything is to be marked.
func (m *marker) waiting() bool { return len(m.tenures) > 0 }

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
	var group, left []*tenure
	seen := make(map[partition.ID]bool, len(m.tenures))
	for _, t := range m.tenures { // of a partition one at a time, in their order
		if id := t.lease.Partition; seen[id] {
			left = append(left, t)
		} else {
			seen[id], t.listed, group = true, false, append(group, t)
		}
	}
	*m = marker{underWay: true, tenures: left}
	results := make([]Result, len(group))
	for i, t := range group {
		results[i] = t.result()
	}
	r.begin(func() func() {
		fenced, err := r.tryMark(ctx, results)
		return func() {
			m.underWay = false
			if err != nil {
				r.log.Warn("mark failed; each partition is marked for itself", "error", err, "partitions", len(results))
			}
			for i, t := range group {
				switch {
				case err != nil:
					t.troubled = true
					r.markAlone(ctx, t, results[i])
				case slices.Contains(fenced, t.lease.Partition):
					r.marked(t)
				default:
					r.settle(t, results[i])
				}
			}
		}
	})
	return true
}

// result is everything of a tenure that is to be marked.
func (t *tenure) result() Result {
	t.inHand = len(t.unmarked)
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

// settle takes note of a mark that was made.
func (r *Relay) settle(t *tenure, res Result) {
	for _, c := range t.unmarked[:t.inHand] {
		if !c.late {
			t.progress(c.Result)
		}
	}
	t.noted(res)
	r.marked(t)
}

// marked ends a mark of a tenure, whatever came of it.
func (r *Relay) marked(t *tenure) {
	over := t.unmarked[:t.inHand]
	t.unmarked, t.inHand = slices.Clone(t.unmarked[t.inHand:]), 0
	for _, c := range over {
		r.settled(c)
	}
	if f := r.flowAt(t.lease.Partition); f.tenure == t && f.stage == fresh && len(t.unmarked) == 0 { // it may be taken now
		f.named, r.woken = true, true
	}
	for _, c := range t.unmarked {
		r.marks.list(t, c.messages, company)
	}
}

// settled ends a batch. What is left of very large payloads goes before the next ones are read: the
// collector by itself would let them gather.
func (r *Relay) settled(c *carried) {
	if c.bytes > r.cfg.WindowBytes/2 {
		runtime.GC()
	}
	if !c.late {
		r.free(r.flowOf(c.Batch.Lease), c.Batch.More)
	}
	r.giveBack(c.messages, c.bytes)
	c.Batch.Lease.Leave()
}

// free has a partition claimed again, at once if more waits than the batch held.
func (r *Relay) free(f *flow, more bool) {
	again := f.again || more
	f.end(true)
	f.named = f.named || again
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
func (r *Relay) markAlone(ctx context.Context, t *tenure, res Result) {
	id := t.lease.Partition
	r.begin(func() func() {
		for failures := 1; t.lease.Valid(); failures++ {
			fenced, err := r.tryMark(ctx, []Result{res})
			forgotten := errors.Is(err, ErrForgotten)
			if forgotten {
				err = nil
			}
			r.cfg.Board.ReportFor("marks of "+boardName(id), err, alonePauses)
			switch {
			case forgotten: // who takes the partition anew sees what the stream holds
				r.log.Info("a batch is not marked: the database has forgotten marks of the partition, is another server or was started again",
					"partition", id, "messages", len(res.Outcomes))
				return func() { r.unmarkable(t) }
			case err == nil && len(fenced) == 0:
				return func() { t.troubled = false; r.settle(t, res) }
			case err == nil:
				return func() { t.troubled = false; r.marked(t) }
			}
			r.log.Warn("mark failed; trying again while the lease is ours", "error", err, "partition", id, "failures", failures)
			timer := time.NewTimer(outageWait(failures))
			select {
			case <-timer.C:
				continue
			case <-ctx.Done():
				timer.Stop()
			}
			break
		}
		r.cfg.Board.Report("marks of "+boardName(id), nil) // they are the heir's
		return func() {
			t.troubled = false
			t.revision++ // what is marked next vouches for this one, and is refused unless it was made
			r.marked(t)
		}
	})
}

// unmarkable has a partition taken anew, of whose marks the database has forgotten some: what is
// left to be marked is known to the stream alone.
func (r *Relay) unmarkable(t *tenure) {
	t.troubled, t.inHand = false, len(t.unmarked)
	if f := r.flowAt(t.lease.Partition); f.tenure == t {
		f.anew()
	}
	r.marked(t)
}

// tryMark marks once and ends the leases that turned out to be fenced.
func (r *Relay) tryMark(ctx context.Context, results []Result) (fenced []partition.ID, err error) {
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
		r.stats.settled(res, r.cfg.Retry)
		r.died(res)
	}
	return fenced, nil
}

// died logs the messages that wait for a person from now on, each once.
func (r *Relay) died(res Result) {
	for i, o := range res.Outcomes {
		if !dies(res.Batch.Messages[i], o, r.cfg.Retry) {
			continue
		}
		m, kind := res.Batch.Messages[i], ""
		if m.Event != nil {
			kind = m.Event.Type
		}
		r.log.Warn("a message died", "sequence", m.Sequence, "stream", m.Stream, "topic", m.Topic, "type", kind,
			"partition", m.Partition, "attempts", m.Attempts+1, "reason", Reason(o.Err))
	}
}

// dies tells whether a failure was the message's last one.
func dies(m Message, o Outcome, retry RetryPolicy) bool {
	return o.Kind == Permanent || o.Kind == Retry && retry.Dead(m.Attempts+1)
}
