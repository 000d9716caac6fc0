package delivery

import (
	"context"
	"errors"
)

// ErrWorkerEnded is the failure of a message over which workers ended, one after
// the other.
var ErrWorkerEnded = errors.New("workers ended one after the other while they carried this message")

// crashesToCare is after how many owners in a row that settled nothing a
// partition's messages are carried one by one, and crashesToDie how many owners in
// a row may end over a single message. Workers that are killed at random hardly ever die over the same message
// again and again.
const (
	crashesToCare = 3
	crashesToDie  = 3
)

// suspected notes durably what a partition that is carried one by one is about to do.
func (r *Relay) suspected(ctx context.Context, c *carried) error {
	if !c.careful {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	return r.store.Suspect(ctx, c.Batch.Lease, c.Batch.Messages[0].Sequence)
}

// acquit ends a batch of which nothing is known: whatever its message does, no worker ended over it. An outage kills none.
func (r *Relay) acquit(c *carried) {
	if !c.careful || !c.Batch.Lease.Valid() {
		r.settled(c)
		return
	}
	r.begin(func() func() {
		ctx, cancel := context.WithTimeout(c.Batch.Lease.Context(), r.cfg.StatementTimeout)
		defer cancel()
		if err := r.store.Suspect(ctx, c.Batch.Lease, 0); err != nil { // it is carried again
			r.log.Debug("a suspicion stays", "partition", c.Batch.Lease.Partition, "error", err)
		}
		return func() { r.settled(c) }
	})
}

// settleSuspect gives up the message over which the last owners crashed, one after
// the other, while they worked on nothing else of the partition.
func (t *takeover) settleSuspect(ctx context.Context) error {
	l := t.lease
	suspect := l.Progress.Suspect
	if suspect == 0 || l.Progress.Suspected < crashesToDie || t.session != nil { // settled under this lease
		return nil
	}
	found, err := t.store.recordedAs(ctx, l.Partition, []int64{suspect}, 0)
	if err != nil {
		return err
	}
	for _, f := range found {
		if !f.Waiting {
			continue
		}
		t.log.Error("workers ended one after the other while they carried this message: it is dead",
			"partition", l.Partition, "sequence", suspect, "workers", l.Progress.Suspected)
		res := Result{
			Batch:    Batch{Lease: l, Policy: t.cfg.Failure, Messages: []Message{{Pointer: f.Pointer}}},
			Outcomes: []Outcome{{Kind: Permanent, Err: ErrWorkerEnded}},
			Revision: t.revision,
		}
		_, err := t.tryMark(ctx, []Result{res})
		t.noted(res) // under a mark that failed the partition is not ready
		return err
	}
	return nil
}

// calm forgets the crashes of a partition that has nothing left to crash over. Where something waits, or that fails, a later look does it.
func (r *Relay) calm(ctx context.Context, f *flow) {
	of, l := f.tenure, f.lease
	r.begin(func() func() {
		ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
		defer cancel()
		calm, _ := r.store.Calm(ctx, l)
		return func() {
			if calm {
				of.careful = 0
				r.leaveUnclaimed(l, true)
				return
			}
			r.flowOf(l).end(true)
			l.Leave()
		}
	})
}
