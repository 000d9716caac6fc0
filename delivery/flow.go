package delivery

import (
	"slices"
	"time"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// stage is where a partition stands between two looks at the outbox.
type stage string

// The stages.
const (
	fresh      stage = "fresh"      // to be taken, for the first time under its lease or anew
	taking     stage = "taking"     // a takeover is under way
	ready      stage = "ready"      // its rows may be claimed
	publishing stage = "publishing" // from claim to answer
	marking    stage = "marking"    // from answer to mark, where the partition must wait for that
)

// steps are the stages that may follow each. doc.go draws them.
var steps = map[stage][]stage{
	fresh:      {taking},
	taking:     {ready, fresh},
	ready:      {publishing, fresh},
	publishing: {ready, marking, fresh},
	marking:    {ready, fresh},
}

// flow is all that a relay knows of a partition. It is the loop's own, as are its tenures.
type flow struct {
	stage stage
	// stale: what is under way ends in fresh, whatever comes of it.
	stale bool
	// again: more may wait than the batch under way holds.
	again bool
	// named: the next look asks for it, although it does not for every partition.
	named bool
	// alone is a pause that concerns only this partition.
	alone pause
	// refusals counts how often in a row the stream knew a newer owner.
	refusals int

	*tenure
}

// tenure is what is known of a partition under one lease.
type tenure struct {
	lease   *lease.Lease
	session Session // of the publisher; nil before it was taken
	// after is the cursor: every ready row up to it is in the stream, or was parked.
	after int64
	// revision is the number with which the partition's row was left.
	revision int64
	swept    time.Time // when a claim last ignored the cursor
	// stream and fence are where the last known event and the record of the last
	// known batch lie in the stream; control is the last control message of all.
	stream, fence, control uint64
	// recorded is the record of the last batch that is known to be marked.
	recorded uint64
	// life is that of the partition's records of which the positions are.
	life string
	// careful: an owner has crashed, and nothing was settled since. It is noted what is about to be carried.
	careful bool
	// unmarked are the batches whose marks are not made yet, in their order; inHand is how
	// many of them a mark under way holds. Listed: the marker is to mark some. Troubled: a
	// mark failed and is made again.
	unmarked         []*carried
	inHand           int
	listed, troubled bool
	known            known // of its records
}

// flowAt returns what is known of a partition.
func (r *Relay) flowAt(id partition.ID) *flow {
	f := r.flows[id]
	if f == nil {
		f = &flow{stage: fresh, tenure: &tenure{}}
		r.flows[id] = f
	}
	return f
}

// flowOf returns what is known of the lease's partition; nothing of an older lease.
func (r *Relay) flowOf(l *lease.Lease) *flow {
	f := r.flowAt(l.Partition)
	if f.lease == l {
		return f
	}
	f.tenure = newTenure(l)
	f.anew()
	return f
}

func newTenure(l *lease.Lease) *tenure {
	return &tenure{
		lease: l, after: nowhere, careful: l.Progress.Crashes > 0,
		stream: l.Progress.StreamSequence, fence: l.Progress.FenceSequence, life: l.Progress.StreamLife,
	}
}

// to makes a step. One that is not in the table is a defect of this package: nothing may be published after it.
func (f *flow) to(next stage) {
	if !slices.Contains(steps[f.stage], next) {
		panic("delivery: a partition cannot go from " + string(f.stage) + " to " + string(next))
	}
	f.stage = next
}

// busy tells whether something is under way.
func (f *flow) busy() bool { return f.stage != fresh && f.stage != ready }

// begin starts what comes next: a takeover, or a look.
func (f *flow) begin() stage {
	if f.stage == fresh {
		f.to(taking)
	} else {
		f.to(publishing)
	}
	return f.stage
}

// end finishes what is under way; well: a takeover has succeeded.
func (f *flow) end(well bool) {
	if f.stale || f.stage == taking && !well {
		f.to(fresh)
	} else {
		f.to(ready)
	}
	f.stale, f.again = false, false
}

// anew has the partition taken before its next claim, and looked through from the beginning.
func (f *flow) anew() {
	f.after = nowhere
	if f.stale = f.busy(); f.stage == ready {
		f.to(fresh)
	}
}

// mayGoOn tells whether the next rows may be published before these are marked: all of them went
// out in order, for the first time, and nothing of them lies in the parking place. What the
// mark of anything else changes decides what may be claimed.
func (f *flow) mayGoOn(c *carried, order Ordering) bool {
	if order != OrderPartition || f.careful || f.troubled || f.stale {
		return false
	}
	for i, o := range c.Outcomes {
		if m := &c.Batch.Messages[i]; o.Kind != Published || m.Parked || m.Attempts > 0 || m.Generation > 0 {
			return false
		}
	}
	return true
}

// leastShare is the fewest messages of a partition that a full batch is cut to.
const leastShare = 32

// most is how many messages to claim of one of so many partitions: a batch, or where
// partitions are published step by step what has all of them in flight at once.
func (r *Relay) most(partitions int) int {
	if r.publisher.Capabilities().Steps {
		return min(r.cfg.BatchSize, max(leastShare, r.cfg.Window/max(1, partitions)))
	}
	return r.cfg.BatchSize
}

// ask says what to claim of a partition now.
func (r *Relay) ask(f *flow, most int) Ask {
	ask := Ask{Lease: f.lease, Revision: f.revision, After: nowhere, Most: most, named: f.named}
	// Without a watermark rows may turn up anywhere, so there is no cursor. With
	// one, a row below the cursor would be somebody's mistake; the sweep finds it, when
	// nothing is there any more that is only waiting for its mark.
	if r.cfg.Ordering == OrderPartition && (time.Since(f.swept) < r.cfg.SweepInterval || len(f.unmarked) > 0) {
		ask.After = f.after
	}
	return ask
}

// sweptThrough notes that a claim looked at the whole partition, and reports what
// it found below the cursor.
func (r *Relay) sweptThrough(f *flow, b *Batch) {
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

// progress moves the cursor behind what has its outcome without a gap, and notes how far the stream is.
func (t *tenure) progress(res Result) {
	unbroken := true
	for i, o := range res.Outcomes {
		m := res.Batch.Messages[i]
		unbroken = unbroken && o.Kind != Unresolved
		if unbroken && !m.Parked {
			t.after = max(t.after, m.Sequence)
		}
		t.stream, t.fence, t.control = max(t.stream, o.StreamSequence), max(t.fence, o.FenceSequence), max(t.control, o.FenceSequence)
	}
	t.careful = t.careful && len(res.Outcomes) == 0
}

// noted takes a mark into account that was made.
func (t *tenure) noted(res Result) {
	t.revision = res.Revision + 1
	for _, o := range res.Outcomes {
		t.recorded = max(t.recorded, o.FenceSequence)
	}
}
