package loop

import (
	"math"
	"slices"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// state is the step of delivery at which a partition stands.
type state string

// The states.
const (
	fresh      state = "fresh"      // to be taken, for the first time under its lease or anew
	taking     state = "taking"     // a takeover is under way
	ready      state = "ready"      // its rows may be claimed
	publishing state = "publishing" // from claim to answer
	marking    state = "marking"    // from answer to mark, where the partition must wait for that
)

// transitions are the states that may follow each. doc.go draws them.
var transitions = map[state][]state{
	fresh:      {taking},
	taking:     {ready, fresh},
	ready:      {publishing, fresh},
	publishing: {ready, marking, fresh},
	marking:    {ready, fresh},
}

// partitionState is all that a relay knows of a partition. Only the loop uses it and its terms.
type partitionState struct {
	state state
	// retaking: what is under way ends in fresh, whatever comes of it.
	retaking bool
	// more: more may wait than the batch under way holds.
	more bool
	// requested: the next look asks for it, although it does not for every partition.
	requested bool
	// alone is a pause that concerns only this partition.
	alone pause
	// refusals counts how often in a row the stream knew a newer owner.
	refusals int

	*term
}

// term is the relay's knowledge of a partition under one lease.
type term struct {
	lease   *lease.Lease
	session delivery.Session // of the publisher; nil before it was taken
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
	// crashed: an owner has ended, and nothing was marked since. What is about to be published is stored first.
	crashed bool
	// unmarked are the batches whose marks are not made yet, in their order; a mark under way holds the
	// first inMark of them. queued: the marker is to mark some. failing: a mark failed and is made again.
	unmarked        []*inflight
	inMark          int
	queued, failing bool
	record          knownRecord // of its records
}

// flowAt returns what is known of a partition.
func (r *Relay) stateAt(id partition.ID) *partitionState {
	f := r.partitions[id]
	if f == nil {
		f = &partitionState{state: fresh, term: &term{}}
		r.partitions[id] = f
	}
	return f
}

// stateOf returns what is known of the lease's partition; nothing of an older lease.
func (r *Relay) stateOf(l *lease.Lease) *partitionState {
	f := r.stateAt(l.Partition)
	if f.lease == l {
		return f
	}
	f.term = newTerm(l)
	f.retake()
	return f
}

func newTerm(l *lease.Lease) *term {
	return &term{
		lease: l, after: nowhere, crashed: l.Progress.Crashes > 0,
		stream: l.Progress.StreamSequence, fence: l.Progress.FenceSequence, life: l.Progress.StreamLife,
	}
}

// to makes a step. One that is not in the table is a defect of this package: nothing may be published after it.
func (f *partitionState) to(next state) {
	if !slices.Contains(transitions[f.state], next) {
		panic("delivery: a partition cannot go from " + string(f.state) + " to " + string(next))
	}
	f.state = next
}

// busy reports whether work of the partition is under way.
func (f *partitionState) busy() bool { return f.state != fresh && f.state != ready }

// begin starts what comes next: a takeover, or a look.
func (f *partitionState) begin() state {
	if f.state == fresh {
		f.to(taking)
	} else {
		f.to(publishing)
	}
	return f.state
}

// end finishes what is under way; well: a takeover has succeeded.
func (f *partitionState) end(well bool) {
	if f.retaking || f.state == taking && !well {
		f.to(fresh)
	} else {
		f.to(ready)
	}
	f.retaking, f.more = false, false
}

// retake has the partition taken before its next claim, which then reads from the beginning.
func (f *partitionState) retake() {
	f.after = nowhere
	if f.retaking = f.busy(); f.state == ready {
		f.to(fresh)
	}
}

// mayGoOn reports whether the next rows may be published before these are marked: all of them went
// out in order, for the first time, and nothing of them lies in the parking place. What the
// mark of anything else changes decides what may be claimed.
func (f *partitionState) mayGoOn(c *inflight, order delivery.Ordering) bool {
	if order != delivery.OrderPartition || f.crashed || f.failing || f.retaking {
		return false
	}
	for i, o := range c.Outcomes {
		if m := &c.Batch.Messages[i]; o.Kind != delivery.Published || m.Parked || m.Attempts > 0 || m.Generation > 0 {
			return false
		}
	}
	return true
}

// leastShare is the fewest messages of a partition that a full batch is cut to.
const minShare = 32

// claimLimit bounds the messages to claim of one of so many partitions. It is a batch, or, where a partition has one
// message in flight at a time, the share of the window that lets all partitions publish at once.
func (r *Relay) claimLimit(partitions int) int {
	if r.publisher.Capabilities().Steps {
		return min(r.cfg.BatchSize, max(minShare, r.cfg.Window/max(1, partitions)))
	}
	return r.cfg.BatchSize
}

// ask bounds the next claim of a partition.
func (r *Relay) ask(f *partitionState, most int) delivery.Ask {
	ask := delivery.Ask{Lease: f.lease, Revision: f.revision, After: nowhere, Most: most, Requested: f.requested}
	// Without a watermark rows may turn up anywhere, so there is no cursor. With
	// one, a row below the cursor would be somebody's mistake; the sweep finds it, when
	// nothing is there any more that is only waiting for its mark.
	if r.cfg.Ordering == delivery.OrderPartition && (time.Since(f.swept) < r.cfg.SweepInterval || len(f.unmarked) > 0) {
		ask.After = f.after
	}
	return ask
}

// sweptThrough notes that a claim looked at the whole partition, and reports what
// it found below the cursor.
func (r *Relay) sweptThrough(f *partitionState, b *delivery.Batch) {
	f.swept = time.Now()
	late := 0
	if b == nil || r.cfg.Ordering != delivery.OrderPartition {
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
func (t *term) progress(res delivery.Result) {
	unbroken := true
	for i, o := range res.Outcomes {
		m := res.Batch.Messages[i]
		unbroken = unbroken && o.Kind != delivery.Unresolved
		if unbroken && !m.Parked {
			t.after = max(t.after, m.Sequence)
		}
		t.stream, t.fence, t.control = max(t.stream, o.StreamSequence), max(t.fence, o.FenceSequence), max(t.control, o.FenceSequence)
	}
	t.crashed = t.crashed && len(res.Outcomes) == 0
}

// noted takes a mark into account that was made.
func (t *term) noted(res delivery.Result) {
	t.revision = res.Revision + 1
	for _, o := range res.Outcomes {
		t.recorded = max(t.recorded, o.FenceSequence)
	}
}

// unbounded claims whatever is visible, and nowhere is before every sequence.
const (
	unbounded int64 = math.MaxInt64
	nowhere   int64 = math.MinInt64
)
