package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
)

// takesAtOnce bounds how many partitions are taken at once.
const takesAtOnce = 16

// take prepares a partition that was entered, and leaves it.
func (r *Relay) take(ctx context.Context, l *lease.Lease, known *term) {
	t, first := takeover{Relay: r, lease: l, term: *known}, known.session == nil
	r.begin(func() report {
		select {
		case r.takes <- struct{}{}:
			defer func() { <-r.takes }()
		case <-ctx.Done():
			return taken{lease: l}
		}
		began := r.clock()
		err := t.run(ctx)
		if err == nil && first { // a resize, which takes partitions too, pauses nothing
			err = t.within(ctx, t.pauseOver)
		}
		if r.cfg.Observer != nil {
			r.cfg.Observer.Taken(began, l, err)
		}
		return taken{l, known, &t.term, err, ctx.Err() != nil}
	})
}

// learn takes over what a takeover found.
func (t *term) learn(from *term) {
	t.session, t.stream, t.fence, t.control = from.session, from.stream, from.fence, from.control
	t.revision, t.recorded, t.after, t.life = from.revision, from.recorded, nowhere, from.life
}

// taken reacts to how a takeover ended.
func (r *Relay) taken(l *lease.Lease, err error, stopped bool) {
	switch {
	case err == nil: // that it can be published to is not shown yet
		r.notRefused(l.Partition)
	case l.Context().Err() != nil || stopped:
	case errors.Is(err, delivery.ErrFenced), errors.Is(err, delivery.ErrLeaseGone):
		r.stats.refused.Add(1)
		r.log.Warn("the partition has a newer owner", "partition", l.Partition, "epoch", l.Epoch, "error", err)
		if errors.Is(err, delivery.ErrFenced) {
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
	f := r.stateOf(l)
	f.end(well)
	f.requested, r.woken = true, true
	l.Leave()
}

// takeover is one under way, with what is known of the partition.
type takeover struct {
	*Relay
	term

	lease    *lease.Lease
	standing delivery.Standing
	row      delivery.Taken
	last     []namedEvent // what the stream's last record names, as long as the database was not changed since it was looked up
}

// run takes the partition from the publisher and ends what earlier owners
// left open: marks of what the stream holds already, messages that the stream
// lost.
func (t *takeover) run(ctx context.Context) (err error) {
	known := delivery.Known{Fence: t.fence, Life: t.life}
	t.standing, err = t.publisher.Take(t.lease.Context(), t.lease, known) //nolint:contextcheck // a takeover lives as long as its lease
	var fenced *delivery.FencedError
	if errors.As(err, &fenced) { // the next lease lies above it, whoever gets it
		return errors.Join(err, t.within(context.WithoutCancel(ctx), func(ctx context.Context) error { return t.store.Raise(ctx, t.lease, fenced.Epoch) }))
	}
	if err != nil {
		return err
	}
	if err := t.within(ctx, func(ctx context.Context) (err error) {
		life := t.standing.Life()
		if _, lost := t.standing.LostSince(known); lost { // until that is settled it is not the row's
			life = ""
		}
		t.row, err = t.store.Take(ctx, t.lease, life)
		return err
	}); err != nil {
		return err
	}
	t.revision, t.recorded, t.life = t.row.Revision, t.row.Recorded, t.row.Life
	if err := t.handleLoss(ctx); err != nil { // there may be much of it
		return err
	}
	if err := t.markDelivered(ctx); err != nil { // as well
		return err
	}
	t.session, t.control = t.standing.Session, t.standing.Fence
	return t.within(ctx, func(ctx context.Context) error { return t.store.Unblock(ctx, t.lease, t.cfg.Failure) })
}

// within gives the database the time of a statement.
func (t *takeover) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.StatementTimeout)
	defer cancel()
	return do(ctx)
}

// errTakenAnew ends a look that found nothing out, since rows were not as they were left.
var errTakenAnew = errors.New("partitions are taken anew")

// forgotten has the partitions taken anew whose rows are not as they were left. Where there is none it returns the claim's error.
func (r *Relay) forgotten(ctx context.Context, asks []delivery.Ask, err error) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	ids, unknown := r.store.Forgotten(ctx, asks)
	if unknown != nil || len(ids) == 0 {
		return cmp.Or(unknown, err)
	}
	for _, id := range ids {
		r.stateAt(id).retake()
	}
	r.wakeAll()
	r.log.Info("partitions are taken anew: the database has forgotten their marks, is another server or was started again",
		"partitions", len(ids))
	return errTakenAnew
}

// namedEvent is a message that the stream's last record names, and what the database knows of it.
type namedEvent struct {
	delivery.Delivered
	delivery.Recorded
}

// foreign: the database has another event there.
func (n namedEvent) foreign() bool {
	return n.Event.Valid && delivery.IdentityOf(n.Event.UUID) != n.Identity
}

// forgotten reports whether the database lacks the event although nobody removed it.
func (n namedEvent) forgotten() bool {
	return n.foreign() || !n.Event.Valid && n.Expected
}

// lookUp looks up what records of the stream name, of which the last lies at that position.
func (t *takeover) lookUp(ctx context.Context, delivered []delivery.Delivered, last uint64) ([]namedEvent, error) {
	if len(delivered) == 0 {
		return nil, nil
	}
	of := make(map[int64][]delivery.Delivered, len(delivered)) // one event may be named under several generations
	for _, d := range delivered {
		of[d.Sequence] = append(of[d.Sequence], d)
	}
	found, err := t.store.Recorded(ctx, t.lease.Partition, slices.Collect(maps.Keys(of)), last)
	all := make([]namedEvent, len(found))
	for i, f := range found {
		all[i] = namedEvent{nameOf(of[f.Sequence], f), f}
	}
	return all, err
}

// nameOf is the one of a sequence's names that means what the database has there: behind a failover it may be another event's.
func nameOf(names []delivery.Delivered, f delivery.Recorded) delivery.Delivered {
	best := names[0]
	for _, d := range names {
		switch {
		case d.Generation != f.Generation:
		case f.Event.Valid && delivery.IdentityOf(f.Event.UUID) == d.Identity:
			return d
		case best.Generation != f.Generation:
			best = d
		}
	}
	return best
}

// compare looks up what records name, and reports events that the stream holds and the database has forgotten.
func (t *takeover) compare(ctx context.Context, delivered []delivery.Delivered, last uint64) ([]namedEvent, error) {
	found, err := t.lookUp(ctx, delivered, last)
	if err != nil {
		return nil, err
	}
	forgotten, era := 0, 0
	for _, n := range found {
		if n.forgotten() {
			forgotten++
			era = max(era, n.Era)
		}
	}
	if forgotten == 0 {
		return found, nil
	}
	return found, t.regressed(ctx, t.lease, era, forgotten, len(found))
}

// markDelivered marks what the stream holds and the database does not know as
// published: what the records name that lie behind the last one of which the database knows.
func (t *takeover) markDelivered(ctx context.Context) (err error) {
	marked, at := 0, t.recorded
	for last := false; !last; {
		var delivered []delivery.Delivered
		before := at
		if at, delivered, err = t.publisher.Between(ctx, t.lease.Partition, at, t.standing.Kept); err != nil {
			return err
		}
		if last = at == before; last {
			at, delivered = t.standing.Kept, t.standing.Delivered
		}
		if err = t.within(ctx, func(ctx context.Context) (err error) {
			found := t.last
			if !last || found == nil {
				found, err = t.compare(ctx, delivered, at)
			}
			if err != nil {
				return err
			}
			n, err := t.markNamed(ctx, found, at)
			marked += n
			return err
		}); err != nil {
			return err
		}
	}
	if marked > 0 {
		t.log.Info("the stream holds messages of an earlier owner that were not marked", "partition", t.lease.Partition, "messages", marked)
	}
	return nil
}

// markNamed marks what records name, of which the last lies at that position. What is forgotten is left alone: its
// sequence may be another event's.
func (t *takeover) markNamed(ctx context.Context, found []namedEvent, last uint64) (marked int, err error) {
	res := delivery.Result{Batch: delivery.Batch{Lease: t.lease, Policy: t.cfg.Failure}, Revision: t.revision}
	for _, n := range found {
		if n.Waiting && n.Recorded.Generation == n.Delivered.Generation && !n.forgotten() {
			res.Batch.Messages = append(res.Batch.Messages, delivery.Message{Pointer: n.Pointer})
			res.Outcomes = append(res.Outcomes, delivery.Outcome{Kind: delivery.Published, StreamSequence: n.StreamSequence, FenceSequence: last})
		}
	}
	if len(res.Outcomes) == 0 {
		return 0, nil
	}
	fenced, err := t.tryMark(ctx, []delivery.Result{res})
	switch {
	case err != nil:
		return 0, err
	case len(fenced) > 0:
		return 0, delivery.ErrLeaseGone
	}
	t.noted(res)
	t.progress(res)
	return len(res.Outcomes), nil
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

// handleLoss queues acknowledged messages again that the stream does not hold. It first reports events that the database has
// forgotten: later the partition's row names the stream's record, and the difference no longer shows.
func (t *takeover) handleLoss(ctx context.Context) error {
	if err := t.within(ctx, func(ctx context.Context) (err error) {
		t.last, err = t.compare(ctx, t.standing.Delivered, t.standing.Kept)
		return err
	}); err != nil {
		return err
	}
	known := delivery.Known{Fence: max(t.fence, t.recorded), Life: t.life} // a failover may have forgotten that a loss was reported, or healed
	kept, lost := t.standing.LostSince(known)
	former, err := t.formerLoss(ctx)
	if err != nil || !lost && !former {
		return err
	}
	life := t.standing.Life()
	age, err := t.mayHeal(ctx)
	if err != nil {
		return err
	}
	t.stats.losses.Add(1)
	t.log.Error("THE STREAM HAS LOST ACKNOWLEDGED MESSAGES: it was restored from an older copy, purged or made anew",
		"partition", t.lease.Partition, "acknowledged_up_to", known.Fence, "kept_up_to", kept, "lost_messages", t.cfg.Lost)
	t.stats.failure(fmt.Errorf("the stream lost acknowledged messages of partition %d above %d (known up to %d)", t.lease.Partition, kept, known.Fence))
	switch {
	case t.cfg.Lost == delivery.LostRepublish:
		found, err := t.heal(ctx, delivery.Loss{Kept: kept, Life: life, Age: age})
		if err != nil {
			return err
		}
		t.log.Warn("lost messages are queued again", "partition", t.lease.Partition, "lost", found.Lost, "queued", found.Queued)
		t.last = nil
	case lost:
		if err := t.within(ctx, func(ctx context.Context) error {
			return t.store.Concede(ctx, t.lease, delivery.Known{Fence: known.Fence, Life: life})
		}); err != nil {
			return err
		}
	}
	t.recorded = 0 // positions may be another stream's
	t.term.stream, t.term.fence, t.term.life = kept, kept, life
	return nil
}

// checkExtent has the partitions taken again whose last known positions the
// stream does not hold any more.
func (r *Relay) checkExtent(ctx context.Context) {
	now, err := r.publisher.Extent(ctx)
	if err != nil {
		return // an outage shows elsewhere
	}
	remade := !r.created.IsZero() && !now.Created.Equal(r.created)
	r.created = now.Created
	r.fit(now)
	for _, f := range r.partitions {
		if remade || f.stream > now.Last || f.control > 0 && (f.control < now.First || f.control > now.Last) {
			f.retake()
		}
	}
}

// Take prepares the partitions as a new owner does, without delivering anything:
// when it returns, nothing that an earlier owner sent for them is under way any
// more, and what the stream holds is marked.
// Of those that the stream refuses, the next leases lie above what it knows.
func (r *Relay) Take(ctx context.Context, leases []*lease.Lease) error {
	var refused error
	for _, l := range leases {
		for attempt := 1; ; attempt++ {
			err := (&takeover{Relay: r, lease: l, term: *newTerm(l)}).run(ctx)
			if err == nil {
				break
			}
			err, again := fmt.Errorf("partition %d: %w", l.Partition, err), errors.Is(err, delivery.ErrOutage) && attempt <= 5
			if errors.Is(err, delivery.ErrFenced) { // the others may be, too
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
