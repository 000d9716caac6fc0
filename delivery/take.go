package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/lease"
)

// takesAtOnce bounds how many partitions are taken at once.
const takesAtOnce = 16

// take prepares a partition that was entered, and leaves it.
func (r *Relay) take(ctx context.Context, l *lease.Lease) {
	well := false
	defer func() { r.leaveUnclaimed(l, well) }()
	select {
	case r.takes <- struct{}{}:
		defer func() { <-r.takes }()
	case <-ctx.Done():
		return
	}
	began := r.clock()
	err := r.takeUp(ctx, l)
	if r.cfg.Observer != nil {
		r.cfg.Observer.Taken(began, l, err)
	}
	switch {
	case err == nil: // that it can be published to is not shown yet
		well = true
		r.notRefused(l.Partition)
	case l.Context().Err() != nil || ctx.Err() != nil:
	case errors.Is(err, ErrFenced), errors.Is(err, errLeaseGone):
		r.stats.refused.Add(1)
		r.log.Warn("the partition has a newer owner", "partition", l.Partition, "epoch", l.Epoch, "error", err)
		if errors.Is(err, ErrFenced) {
			r.refusedByFence(l.Partition, err)
		}
		l.Lost()
	default:
		r.unresolved(l.Partition, err)
	}
}

// leaveUnclaimed ends a visit that claimed nothing, and has the partition looked
// at again.
func (r *Relay) leaveUnclaimed(l *lease.Lease, well bool) {
	r.mu.Lock()
	f := r.flowOfLocked(l)
	f.end(well)
	f.named = true
	r.mu.Unlock()
	l.Leave()
	r.wake()
}

// takeUp takes the partition from the publisher and settles what earlier owners
// left open: marks of what the stream holds already, messages that the stream
// lost, a message that crashed its worker.
func (r *Relay) takeUp(ctx context.Context, l *lease.Lease) error {
	standing, err := r.publisher.Take(l.Context(), l) //nolint:contextcheck // a takeover lives as long as its lease
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	var fenced *FencedError
	if errors.As(err, &fenced) { // the next lease lies above it, whoever gets it
		return errors.Join(err, r.store.Raise(ctx, l, fenced.Epoch))
	}
	if err != nil {
		return err
	}
	found, err := r.named(ctx, l, standing)
	if err != nil {
		return err
	}
	// Before what was lost is queued again: that has the partition know the stream's record.
	if err := r.settleForgotten(ctx, l, found); err != nil {
		return err
	}
	lost, err := r.settleLost(ctx, l, standing)
	if err == nil && lost {
		found, err = r.named(ctx, l, standing)
	}
	if err != nil {
		return err
	}
	if err := r.settleDelivered(ctx, l, standing, found); err != nil {
		return err
	}
	if err := r.settleSuspect(ctx, l); err != nil {
		return err
	}
	if err := r.store.Unblock(ctx, l, r.cfg.Failure); err != nil {
		return err
	}
	r.mu.Lock()
	f := r.flowOfLocked(l)
	f.control, f.after = standing.Fence, nowhere
	r.mu.Unlock()
	return nil
}

// moved tells whether a claim was answered by another server than the one before, or
// by one that was started again. What it has forgotten shows when a partition is
// taken, and no more when the next record is written: so all are taken anew first.
func (r *Relay) moved(server time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.server
	if server.IsZero() || server.Equal(before) {
		return false
	}
	r.server = server
	if before.IsZero() {
		return false
	}
	for _, f := range r.flows {
		f.anew()
		f.marked = time.Time{}
	}
	r.log.Info("the database is another server or was started again: all partitions are taken anew", "partitions", len(r.flows))
	return true
}

// named is a message that the stream's last record names, and what the database knows of it.
type named struct {
	Delivered
	recorded
}

// stranger tells whether the database has another event there.
func (n named) stranger() bool {
	return n.Event.Valid && IdentityOf(n.Event.UUID) != n.Identity
}

// forgotten tells whether the database lacks the event although nobody removed it.
func (n named) forgotten() bool {
	return n.stranger() || !n.Event.Valid && n.Expected
}

// named looks up what the stream's last record names.
func (r *Relay) named(ctx context.Context, l *lease.Lease, standing Standing) ([]named, error) {
	if len(standing.Delivered) == 0 {
		return nil, nil
	}
	sequences := make([]int64, len(standing.Delivered))
	delivered := make(map[int64]Delivered, len(standing.Delivered))
	for i, d := range standing.Delivered {
		sequences[i], delivered[d.Sequence] = d.Sequence, d
	}
	found, err := r.store.recordedAs(ctx, l.Partition, sequences, standing.Kept)
	all := make([]named, len(found))
	for i, f := range found {
		all[i] = named{delivered[f.Sequence], f}
	}
	return all, err
}

// settleForgotten reports events that the stream holds and the database has forgotten.
func (r *Relay) settleForgotten(ctx context.Context, l *lease.Lease, found []named) error {
	forgotten, era := 0, 0
	for _, n := range found {
		if n.forgotten() {
			forgotten++
			era = max(era, n.Era)
		}
	}
	if forgotten == 0 {
		return nil
	}
	return r.regressed(ctx, l, era, forgotten, len(found))
}

// settleDelivered marks what the stream holds and the database does not know as
// published. What is forgotten is left alone: its sequence may be another event's.
func (r *Relay) settleDelivered(ctx context.Context, l *lease.Lease, standing Standing, found []named) error {
	res := Result{Batch: Batch{Lease: l, Policy: r.cfg.Failure}}
	for _, n := range found {
		if n.Waiting && n.recorded.Generation == n.Delivered.Generation && !n.forgotten() {
			res.Batch.Messages = append(res.Batch.Messages, Message{Pointer: n.Pointer})
			res.Outcomes = append(res.Outcomes, Outcome{Kind: Published, StreamSequence: n.StreamSequence, FenceSequence: standing.Kept})
		}
	}
	if len(res.Outcomes) == 0 {
		return nil
	}
	r.log.Info("the stream holds messages of an earlier owner that were not marked", "partition", l.Partition, "messages", len(res.Outcomes))
	return r.tryMark(ctx, []Result{res})
}

// regressed reports that the database lost commits, as after a failover to a
// standby that lagged behind: once for each loss, since that raises the generation
// above the era of what was lost.
func (r *Relay) regressed(ctx context.Context, l *lease.Lease, era, forgotten, named int) error {
	reason := fmt.Sprintf("of %d events that the stream holds for partition %d, the database has forgotten %d", named, l.Partition, forgotten)
	generation, err := r.store.Regress(ctx, l.Partition, era, reason)
	if err != nil {
		return err
	}
	if generation == 0 {
		r.log.Info("the database has forgotten published events, as was reported before: the generation is above theirs",
			"partition", l.Partition, "forgotten", forgotten, "named", named)
		return nil
	}
	r.stats.regressions.Add(1)
	r.log.Error("THE DATABASE HAS FORGOTTEN PUBLISHED EVENTS: a failover or a restore lost commits; messages have a new generation from now on",
		"partition", l.Partition, "forgotten", forgotten, "named", named, "generation", generation)
	r.stats.failure(errors.New(reason))
	return nil
}

// settleLost queues again what the stream had acknowledged and does not hold.
func (r *Relay) settleLost(ctx context.Context, l *lease.Lease, standing Standing) (lost bool, err error) {
	r.mu.Lock()
	f := r.flowOfLocked(l)
	known := f.stream
	switch {
	case standing.Fence > 0: // other modes may have published since
		known = f.fence
	case f.remade:
		standing.Kept = 0
	}
	r.mu.Unlock()
	former, err := r.formerLoss(ctx, l, standing)
	if err != nil {
		return false, err
	}
	if standing.Kept >= known && !former {
		r.mu.Lock()
		f.remade = false
		r.mu.Unlock()
		return false, nil
	}
	r.stats.losses.Add(1)
	r.log.Error("THE STREAM HAS LOST ACKNOWLEDGED MESSAGES: it was restored from an older copy, purged or made anew",
		"partition", l.Partition, "acknowledged_up_to", known, "kept_up_to", standing.Kept, "lost_messages", r.cfg.Lost)
	r.stats.failure(fmt.Errorf("the stream lost acknowledged messages of partition %d above %d (known up to %d)", l.Partition, standing.Kept, known))
	if r.cfg.Lost == LostRepublish {
		healed, err := r.heal(ctx, l, standing)
		if err != nil {
			return true, err
		}
		r.log.Warn("lost messages are queued again", "partition", l.Partition, "lost", healed.Lost, "queued", healed.Queued)
	}
	r.mu.Lock()
	f.stream, f.fence, f.remade = standing.Kept, standing.Kept, false
	r.mu.Unlock()
	return true, nil
}

// settleSuspect gives up the message over which the last owners crashed, one after
// the other, while they worked on nothing else of the partition.
func (r *Relay) settleSuspect(ctx context.Context, l *lease.Lease) error {
	suspect := l.Progress.Suspect
	if suspect == 0 || l.Progress.Suspected < crashesToDie {
		return nil
	}
	found, err := r.store.recordedAs(ctx, l.Partition, []int64{suspect}, 0)
	if err != nil {
		return err
	}
	for _, f := range found {
		if !f.Waiting {
			continue
		}
		r.log.Error("workers ended one after the other while they carried this message: it is dead",
			"partition", l.Partition, "sequence", suspect, "workers", l.Progress.Suspected)
		return r.tryMark(ctx, []Result{{
			Batch:    Batch{Lease: l, Policy: r.cfg.Failure, Messages: []Message{{Pointer: f.Pointer}}},
			Outcomes: []Outcome{{Kind: Permanent, Err: ErrWorkerEnded}},
		}})
	}
	return nil
}

// calm forgets the crashes of a partition that has nothing left to crash over.
func (r *Relay) calm(ctx context.Context, l *lease.Lease) {
	defer r.leaveUnclaimed(l, true)
	if err := r.tryMark(ctx, []Result{{Batch: Batch{Lease: l}}}); err != nil {
		r.stats.failure(err) // it is tried again by the next owner
	}
}

// ErrWorkerEnded is the failure of a message over which workers ended, one after
// the other.
var ErrWorkerEnded = errors.New("workers ended one after the other while they carried this message")

// checkExtent has the partitions taken again whose last known positions the
// stream does not hold any more.
func (r *Relay) checkExtent(ctx context.Context) {
	now, err := r.publisher.Extent(ctx)
	if err != nil {
		return // an outage shows elsewhere
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	remade := !r.created.IsZero() && !now.Created.Equal(r.created)
	r.created = now.Created
	for _, f := range r.flows {
		f.remade = f.remade || remade
		if remade || f.stream > now.Last || f.control > 0 && (f.control < now.First || f.control > now.Last) {
			f.anew()
		}
	}
}

// Take prepares the partitions as a new owner does, without delivering anything:
// when it returns, nothing that an earlier owner sent for them is under way any
// more, as far as the publish mode promises, and what the stream holds is marked.
// Of those that the stream refuses, the next leases lie above what it knows.
func (r *Relay) Take(ctx context.Context, leases []*lease.Lease) error {
	var refused error
	for _, l := range leases {
		for attempt := 1; ; attempt++ {
			err := r.takeUp(ctx, l)
			if err == nil {
				break
			}
			err, again := fmt.Errorf("partition %d: %w", l.Partition, err), errors.Is(err, ErrOutage) && attempt <= 5
			if errors.Is(err, ErrFenced) { // the others may be, too
				refused = err
				break
			}
			if !again {
				return err
			}
		}
	}
	return refused
}
