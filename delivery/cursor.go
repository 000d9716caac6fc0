package delivery

import (
	"time"

	"github.com/postrider/postrider/lease"
)

// leastShare is the fewest messages of a partition that a full batch is cut to.
const leastShare = 32

// most is how many messages to claim of one of so many partitions: a batch, or where
// partitions are published step by step what has all of them in flight at once.
func (r *Relay) most(partitions int) int {
	if p, ok := r.publisher.(Stepper); ok && p.Steps(r.cfg.Ordering) {
		return min(r.cfg.BatchSize, max(leastShare, r.cfg.Window/max(1, partitions)))
	}
	return r.cfg.BatchSize
}

// askLocked says what to claim of a partition now.
func (r *Relay) askLocked(f *flow, most int) Ask {
	ask := Ask{Lease: f.lease, After: nowhere, Most: most}
	if f.careful > 0 {
		ask.Most = 1
	}
	// Without a watermark rows may turn up anywhere, so there is no cursor. With
	// one, a row below the cursor would be somebody's mistake; the sweep finds it.
	if r.cfg.Ordering == OrderPartition && time.Since(f.swept) < r.cfg.SweepInterval {
		ask.After = f.after
	}
	return ask
}

// sweptLocked notes that a claim looked at the whole partition, and reports what
// it found below the cursor.
func (r *Relay) sweptLocked(f *flow, b *Batch) {
	f.swept = time.Now()
	late := 0
	if b == nil || r.cfg.Ordering != OrderPartition {
		return
	}
	for _, m := range b.Messages {
		if !m.Parked && m.Sequence <= f.after {
			late++
		}
	}
	if late > 0 {
		r.stats.late.Add(int64(late))
		r.log.Warn("rows turned up below the cursor; they are delivered out of order: were they inserted by hand, or was a sequence drawn before its INSERT?",
			"partition", f.lease.Partition, "cursor", f.after, "rows", late)
	}
}

// progress moves the cursor behind what was settled without a gap, and notes how
// far the stream is and when that was marked.
func (r *Relay) progress(res Result, marked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flowOfLocked(res.Batch.Lease)
	unbroken := true
	for i, o := range res.Outcomes {
		m := res.Batch.Messages[i]
		unbroken = unbroken && o.Kind != Unresolved
		if unbroken && !m.Parked {
			f.after = max(f.after, m.Sequence)
		}
		f.stream, f.fence, f.control = max(f.stream, o.StreamSequence), max(f.fence, o.FenceSequence), max(f.control, o.FenceSequence)
		if o.Kind == Published {
			f.marked = marked
		}
	}
	if f.careful > 0 {
		f.careful -= len(res.Outcomes)
	}
}

// outlived tells whether a batch was claimed in a session that is younger than the
// partition's last mark. Then the server may have crashed between and taken the
// mark back, and the partition is taken anew.
func (r *Relay) outlived(b Batch, session time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flowOfLocked(b.Lease)
	if session.Before(f.marked) || f.marked.IsZero() {
		return false
	}
	r.log.Info("a partition is taken anew, as its last mark was made before this database session began", "partition", b.Lease.Partition)
	f.anew()
	f.marked = time.Time{}
	return true
}

// careful tells whether the partition's messages are carried one by one.
func (r *Relay) careful(l *lease.Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flowOfLocked(l).careful > 0
}

// watermarkPoll is how soon the watermark is looked at again while it waits for a
// transaction that is about to end.
const watermarkPoll = 5 * time.Millisecond

// patience is how long to wait for the next look: the usual interval, or less
// while the watermark is behind and moves.
type patience struct {
	least, most time.Duration
	wait        time.Duration
	seen        int64
	since       time.Time // when the watermark was behind and had moved last
}

func (p *patience) next(w *Watermark) time.Duration {
	if w == nil || w.Lag() == 0 {
		p.wait = 0
		return p.most
	}
	if p.wait == 0 || w.Safe != p.seen {
		p.wait, p.since = p.least, time.Now()
	} else {
		p.wait = min(2*p.wait, p.most)
	}
	p.seen = w.Safe
	return min(p.wait, p.most)
}

// moving tells whether the watermark is behind and may still move soon.
func (p *patience) moving() bool { return p.wait > 0 && time.Since(p.since) < time.Second }
