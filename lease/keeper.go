package lease

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/postrider/postrider/partition"
)

// Table stores the leases; a Store keeps it in PostgreSQL. Store documents its methods.
type Table interface {
	Acquire(ctx context.Context, owner partition.WorkerID, ttl time.Duration, ids []partition.ID) ([]*Lease, error)
	AcquireSolo(ctx context.Context, name partition.WorkerID) ([]*Lease, error)
	Renew(ctx context.Context, owner partition.WorkerID, ttl, patience time.Duration, leases []*Lease) (renewed, locked []partition.ID, err error)
	Release(ctx context.Context, owner partition.WorkerID, leases []*Lease) ([]partition.ID, error)
	Disown(ctx context.Context, owner partition.WorkerID) ([]partition.ID, error)
	Snapshot(ctx context.Context) (Snapshot, error)
}

// Keeper takes, renews and gives back the leases of one worker.
type Keeper struct {
	cfg   Config
	table Table
	owner partition.WorkerID
	set   *Set
	log   *slog.Logger
}

// NewKeeper returns a keeper for the worker of that id.
func NewKeeper(table Table, owner partition.WorkerID, cfg Config) (*Keeper, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Keeper{cfg: cfg, table: table, owner: owner, set: newSet(), log: cfg.Logger.With("worker", owner.String())}, nil
}

// Set returns the worker's leases; the same set for the keeper's lifetime.
func (k *Keeper) Set() *Set { return k.set }

// Owner is the worker's id.
func (k *Keeper) Owner() partition.WorkerID { return k.owner }

// Snapshot reads all partitions.
func (k *Keeper) Snapshot(ctx context.Context) (Snapshot, error) { return k.table.Snapshot(ctx) }

// Acquire takes the partitions that are free in the database and have no unfinished work here, adds them to the set and returns them.
func (k *Keeper) Acquire(ctx context.Context, ids []partition.ID) ([]*Lease, error) {
	ids = k.set.free(ids)
	if len(ids) == 0 {
		return nil, nil
	}
	start := time.Now()
	leases, err := k.table.Acquire(ctx, k.owner, k.cfg.TTL, ids)
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		l.trust(start.Add(k.cfg.TTL - k.cfg.Margin))
	}
	k.set.add(leases)
	return leases, nil
}

// AcquireSolo takes every partition for a worker without leasing.
func (k *Keeper) AcquireSolo(ctx context.Context) ([]*Lease, error) {
	leases, err := k.table.AcquireSolo(ctx, k.owner)
	if err != nil {
		return nil, err
	}
	k.set.add(leases)
	return leases, nil
}

// Run renews the leases of the set until the context ends.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(k.cfg.RenewEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait := k.cfg.RenewEvery
		if err := k.renew(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("renewal of leases failed", "error", err)
			wait = k.cfg.RenewEvery / 4
		}
		timer.Reset(wait)
	}
}

// renew extends the leases of the set, and ends those that another worker took.
func (k *Keeper) renew(ctx context.Context) error {
	leases := slices.DeleteFunc(k.set.Held(), (*Lease).Solo)
	if len(leases) == 0 {
		return nil
	}
	// A renewal that hangs must leave time for another one.
	ctx, cancel := context.WithTimeout(ctx, min(k.cfg.RenewEvery, (k.cfg.TTL-k.cfg.Margin)/2))
	defer cancel()
	start := time.Now()
	renewed, locked, err := k.table.Renew(ctx, k.owner, k.cfg.TTL, k.cfg.RenewEvery/4, leases)
	if err != nil {
		return err
	}
	slices.Sort(renewed)
	slices.Sort(locked)
	for _, l := range leases {
		_, ours := slices.BinarySearch(renewed, l.Partition)
		_, passed := slices.BinarySearch(locked, l.Partition)
		switch {
		case ours:
			l.trust(start.Add(k.cfg.TTL - k.cfg.Margin))
		case passed:
			k.log.Warn("somebody holds the partition's row locked; its lease cannot be renewed", "partition", l.Partition)
		case l.ctx.Err() == nil:
			k.log.Warn("lease was taken by another worker, or the database failed over", "partition", l.Partition, "epoch", l.Epoch)
			l.Lost()
		}
	}
	return nil
}

// Disown frees every row that still carries the worker's name, at the end of a worker without leases: the answer to an acquisition may
// have been lost.
func (k *Keeper) Disown(ctx context.Context) error {
	ids, err := k.table.Disown(ctx, k.owner)
	if len(ids) > 0 {
		k.log.Info("freed leases whose acquisition had no answer", "partitions", len(ids))
	}
	return err
}

// Release ends drained leases here first, then frees their rows and returns the number of rows. A failed release leaves the rows to their
// TTL.
func (k *Keeper) Release(ctx context.Context, leases []*Lease) (freed int, err error) {
	var mine []*Lease
	for _, l := range leases {
		ended := l.ctx.Err() != nil
		l.end(ErrReleased)
		if !ended && !l.Solo() {
			mine = append(mine, l)
		}
	}
	if len(mine) == 0 {
		return 0, nil
	}
	ids, err := k.table.Release(ctx, k.owner, mine)
	return len(ids), err
}
