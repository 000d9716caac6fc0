package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// reconcile reads the cluster once, gives up what the plan gives to others,
// takes what it gives to this worker, and returns how long to wait.
func (c *Coordinator) reconcile(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, max(c.cfg.Interval, time.Second))
	defer cancel()
	workers, err := c.beater.Snapshot(ctx)
	if err != nil {
		return c.cfg.Interval / 4, err
	}
	leases, err := c.keeper.Snapshot(ctx)
	if err != nil {
		return c.cfg.Interval / 4, err
	}
	plan := c.plan(workers, leases)
	if plan == nil {
		c.log.Warn("not a member by the database's clock; waiting for the next heartbeat")
		return c.cfg.Interval / 4, nil
	}
	c.giveUp(ctx, plan)
	if err := c.take(ctx, plan); err != nil {
		return c.cfg.Interval / 4, err
	}
	return c.wait(plan, leases), nil
}

// plan returns this worker's partitions; nil means that it is no member.
func (c *Coordinator) plan(workers heartbeat.Snapshot, leases lease.Snapshot) []partition.ID {
	members := workers.Members()
	if !slices.Contains(members, c.beater.ID()) {
		return nil
	}
	plan := partition.Assign(c.cfg.Strategy, partition.Snapshot{
		Workers: members, Count: partition.Count(len(leases.Rows)), Owners: leases.Owners(),
	})
	desired := slices.Clone(plan[c.beater.ID()])
	if desired == nil {
		desired = []partition.ID{}
	}
	c.state.Store(&State{Members: len(members), Desired: desired})
	return desired
}

// giveUp hands over, in the background, what the plan gives to others.
func (c *Coordinator) giveUp(ctx context.Context, desired []partition.ID) {
	var surplus []*lease.Lease
	for _, l := range c.keeper.Set().Held() {
		if !slices.Contains(desired, l.Partition) && !l.Draining() {
			l.Drain()
			surplus = append(surplus, l)
		}
	}
	if len(surplus) == 0 {
		return
	}
	c.log.Info("giving up partitions", "partitions", len(surplus))
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*c.cfg.DrainTimeout)
	c.handing.Go(func() {
		defer cancel()
		c.handOver(work, surplus)
	})
}

// take acquires what the plan gives to this worker, where it is free.
func (c *Coordinator) take(ctx context.Context, desired []partition.ID) error {
	var missing []partition.ID
	for _, id := range desired {
		if c.keeper.Set().Get(id) == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	// Not under ctx: an acquisition that is cut while the database carries it out
	// would leave leases that nobody here knows of.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.DrainTimeout)
	defer cancel()
	taken, err := c.keeper.Acquire(whole, missing)
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
		c.log.Info("acquired partitions", "partitions", len(taken), "desired", len(desired))
	}
	return nil
}

// wait is the time until the next reconciliation: Interval, or sooner when a
// lease that this worker is to have runs out before that. While a partition is
// free it is a tenth: workers whose snapshots differed may each have left it to
// another.
func (c *Coordinator) wait(desired []partition.ID, leases lease.Snapshot) time.Duration {
	wait := c.cfg.Interval
	for _, r := range leases.Rows {
		if !r.Held() && c.keeper.Set().Get(r.Partition) == nil {
			wait = min(wait, c.cfg.Interval/10)
		}
		if slices.Contains(desired, r.Partition) && c.keeper.Set().Get(r.Partition) == nil && r.Held() {
			wait = min(wait, r.Left+5*time.Millisecond)
		}
	}
	return max(wait, c.cfg.Quiet)
}
