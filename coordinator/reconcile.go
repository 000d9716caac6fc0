package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// look is the last read of all leases; ADR 20 decides when to read them.
type look struct {
	at      time.Time
	every   time.Duration // interval of reads in peace
	members []partition.WorkerID
	settled bool // a member held each partition, for no longer than a lease can last
}

// In peace, a cluster reads rowsPerSecond rows of leases, or each worker all of them every longestPeace: 200 workers that read 10,000 rows
// each second would keep a core of the database busy (docs/scaling.md).
const (
	rowsPerSecond = 200_000
	longestPeace  = 5 * time.Second
)

// peace reports whether the leases equal the last read: members held everything, nobody rang, nobody came or went, and this
// worker holds its desired partitions. Rings can be lost, so leases are read now and then all the same.
func (c *Coordinator) peace(members []partition.WorkerID) bool {
	if !c.seen.settled || time.Since(c.seen.at)+c.cfg.Quiet >= c.seen.every || !slices.Equal(members, c.seen.members) {
		return false
	}
	desired, held := c.state.Load().Desired, c.keeper.Set().Held()
	return slices.EqualFunc(desired, held, func(id partition.ID, l *lease.Lease) bool { return id == l.Partition && !l.Draining() })
}

func settled(leases lease.Snapshot, members []partition.WorkerID) bool {
	living := make(map[partition.WorkerID]bool, len(members))
	for _, id := range members {
		living[id] = true
	}
	return !slices.ContainsFunc(leases.Rows, func(r lease.Row) bool { return !r.Held() || r.Ahead || !living[r.Owner] })
}

// reconcile reads the cluster once, gives up the partitions that the plan moves away, takes the desired ones, and returns the
// wait. rung: somebody announced a change.
func (c *Coordinator) reconcile(ctx context.Context, rung bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, max(c.cfg.Interval, time.Second))
	defer cancel()
	looked := time.Now()
	workers, err := c.beater.Snapshot(ctx)
	if err != nil {
		return c.cfg.Interval / 4, err
	}
	c.clock.look(c.log, looked, time.Now(), workers.At)
	self, known := workers.Find(c.beater.ID())
	switch asked := known && self.DrainRequestedAt != nil; {
	case asked, c.beater.Draining() && !known:
		return c.cfg.Interval, c.drain(ctx)
	case c.beater.Draining():
		c.log.Info("takes part again, as an operator took the drain back")
		c.seen.settled = false
		return c.cfg.Interval / 4, c.beater.Undrain(ctx)
	}
	members := workers.Members()
	if !rung && c.peace(members) {
		return c.cfg.Interval, nil
	}
	began := time.Now()
	leases, err := c.keeper.Snapshot(ctx)
	if err != nil {
		return c.cfg.Interval / 4, err
	}
	every := time.Duration(len(leases.Rows)*len(members)) * time.Second / rowsPerSecond
	c.seen = look{began, max(c.cfg.Interval, min(every, longestPeace)), members, settled(leases, members)}
	plan, member := c.plan(members, leases)
	if !member {
		c.log.Warn("not a member by the database's clock; waiting for the next heartbeat")
		return c.cfg.Interval / 4, nil
	}
	var owned []partition.ID
	for _, l := range c.keeper.Set().Held() {
		owned = append(owned, l.Partition)
	}
	missing, surplus := plan.Diff(c.beater.ID(), owned)
	c.giveUp(ctx, surplus)
	if err := c.take(ctx, missing); err != nil {
		return c.cfg.Interval / 4, err
	}
	return c.wait(plan.Desired(c.beater.ID()), leases), nil
}

// drain answers an operator's request: the others plan without this worker, and it gives its leases back. It takes none until the
// request is taken back, but stays in the cluster until it is stopped.
func (c *Coordinator) drain(ctx context.Context) error {
	if !c.beater.Draining() {
		c.log.Info("draining, as an operator asked, until that is taken back or the worker started again")
		if err := c.beater.Drain(ctx); err != nil {
			c.log.Warn("could not announce draining; the next heartbeat will", "error", err)
		}
	}
	c.state.Store(&State{Members: c.Members(), Draining: true})
	var held []partition.ID
	for _, l := range c.keeper.Set().Held() {
		held = append(held, l.Partition)
	}
	c.giveUp(ctx, held)
	return nil
}

// plan shares the partitions among the members; false means that this worker is none of them.
func (c *Coordinator) plan(members []partition.WorkerID, leases lease.Snapshot) (partition.Plan, bool) {
	if !slices.Contains(members, c.beater.ID()) {
		return nil, false
	}
	if leases.Frozen { // partitions are being resized
		c.state.Store(&State{Members: len(members), Frozen: true})
		return nil, true
	}
	plan := partition.Assign(c.cfg.Strategy, partition.Snapshot{Workers: members, Count: partition.Count(len(leases.Rows)), Owners: leases.Owners()})
	c.state.Store(&State{Members: len(members), Desired: plan.Desired(c.beater.ID())})
	return plan, true
}

// giveUp hands over, in the background, surplus partitions that are not being handed over already.
func (c *Coordinator) giveUp(ctx context.Context, surplus []partition.ID) {
	var leaving []*lease.Lease
	for _, id := range surplus {
		if l := c.keeper.Set().Get(id); l != nil && !l.Draining() {
			l.Drain()
			leaving = append(leaving, l)
		}
	}
	if len(leaving) == 0 {
		return
	}
	c.log.Info("giving up partitions", "partitions", len(leaving))
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*c.cfg.DrainTimeout)
	c.handing.Go(func() {
		defer cancel()
		c.handOver(work, leaving)
	})
}

// take acquires the missing partitions that are free.
func (c *Coordinator) take(ctx context.Context, missing []partition.ID) error {
	if len(missing) == 0 {
		return nil
	}
	// Not under ctx: a cut acquisition that the database carries out would leave leases that nobody here knows.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.DrainTimeout)
	defer cancel()
	start := time.Now()
	taken, err := c.keeper.Acquire(whole, missing)
	if c.cfg.Observer != nil && (len(taken) > 0 || err != nil) {
		c.cfg.Observer(StepAcquire, start, len(taken), err)
	}
	if err != nil {
		return err
	}
	for _, l := range taken {
		context.AfterFunc(l.Context(), func() { //nolint:contextcheck // a lease's end is its own
			if errors.Is(context.Cause(l.Context()), lease.ErrLost) {
				c.lost.Add(1)
				c.log.Warn("lost a lease", "partition", l.Partition, "epoch", l.Epoch)
			}
		})
	}
	if len(taken) > 0 {
		c.acquired.Add(int64(len(taken)))
		c.log.Info("acquired partitions", "partitions", len(taken), "missing", len(missing))
	}
	return nil
}

// wait returns the time until the next reconciliation: Interval, or less when the lease of a desired partition runs out before. While
// a partition is free it is a tenth: workers whose snapshots differed may each have left it to another.
func (c *Coordinator) wait(desired []partition.ID, leases lease.Snapshot) time.Duration {
	wait := c.cfg.Interval
	for _, r := range leases.Rows {
		switch {
		case r.Owner == c.beater.ID() && c.keeper.Set().Get(r.Partition) != nil:
		case !r.Held() && c.keeper.Set().Get(r.Partition) == nil:
			wait = min(wait, c.cfg.Interval/10)
		case r.Held() && r.Left < wait && mine(desired, r.Partition) && c.keeper.Set().Get(r.Partition) == nil:
			wait = min(wait, r.Left+5*time.Millisecond)
		}
	}
	return max(wait, c.cfg.Quiet)
}

func mine(desired []partition.ID, id partition.ID) bool {
	_, found := slices.BinarySearch(desired, id)
	return found
}
