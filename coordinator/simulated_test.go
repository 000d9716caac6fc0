package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// prices are what statements cost the simulated database.
type prices struct {
	cores     int
	link      time.Duration // there and back
	statement time.Duration
	read      time.Duration // a row
	write     time.Duration // a row
}

// load is what a simulated database was asked for.
type load struct {
	Statements, RowsRead, RowsWritten int64
	Busy                              time.Duration // of all cores
}

func (l load) minus(before load) load {
	return load{l.Statements - before.Statements, l.RowsRead - before.RowsRead, l.RowsWritten - before.RowsWritten, l.Busy - before.Busy}
}

// simulated is the two tables in memory, by the clock of the test. Statements queue for its cores.
type simulated struct {
	prices prices
	cores  chan struct{}

	mu      sync.Mutex
	used    load
	rows    []lease.Row
	workers map[partition.WorkerID]heartbeat.Worker
	moves   int // rows that changed from one worker to another
	former  []partition.WorkerID
}

func newSimulated(partitions int, p prices) *simulated {
	d := &simulated{
		prices: p, cores: make(chan struct{}, p.cores), rows: make([]lease.Row, partitions),
		former: make([]partition.WorkerID, partitions), workers: map[partition.WorkerID]heartbeat.Worker{},
	}
	for i := range d.rows {
		d.rows[i].Partition = partition.ID(i)
	}
	return d
}

var errUnreachable = errors.New("the simulated database cannot be reached")

// statement takes the time that a statement takes, and then does it.
func (d *simulated) statement(ctx context.Context, read, write int, do func(now time.Time)) error {
	busy := d.prices.statement + time.Duration(read)*d.prices.read + time.Duration(write)*d.prices.write
	if err := pause(ctx, d.prices.link); err != nil {
		return err
	}
	select {
	case d.cores <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.cores }()
	if err := pause(ctx, busy); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used.Statements++
	d.used.RowsRead += int64(read)
	d.used.RowsWritten += int64(write)
	d.used.Busy += busy
	do(time.Now())
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *simulated) load() load {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// link is one worker's way to the database; it can be cut.
type link struct {
	*simulated

	cut chan struct{}
}

func (l *link) statement(ctx context.Context, read, write int, do func(now time.Time)) error {
	select {
	case <-l.cut:
		return errUnreachable
	default:
	}
	return l.simulated.statement(ctx, read, write, do)
}

// members is a link as table of workers.
type members struct{ *link }

func (m members) Beat(ctx context.Context, w heartbeat.Worker, ttl time.Duration) error {
	return m.statement(ctx, 1, 1, func(now time.Time) {
		before, known := m.workers[w.ID]
		if !known {
			w.StartedAt = now
			before = w
		}
		before.HeartbeatUntil, before.State = now.Add(ttl), w.State
		m.workers[w.ID] = before
	})
}

func (m members) Leave(ctx context.Context, w heartbeat.Worker) error {
	return m.statement(ctx, 1, 1, func(time.Time) { delete(m.workers, w.ID) })
}

func (m members) Purge(ctx context.Context, after time.Duration) (n int64, err error) {
	err = m.statement(ctx, 0, 0, func(now time.Time) {
		for id, w := range m.workers {
			if w.HeartbeatUntil.Before(now.Add(-after)) {
				delete(m.workers, id)
				n++
			}
		}
	})
	return n, err
}

func (m members) Snapshot(ctx context.Context) (s heartbeat.Snapshot, err error) {
	m.mu.Lock()
	count := len(m.workers)
	m.mu.Unlock()
	err = m.statement(ctx, count, 0, func(now time.Time) {
		s.At = now
		for _, w := range m.workers {
			w.Left = w.HeartbeatUntil.Sub(now)
			s.Workers = append(s.Workers, w)
		}
	})
	slices.SortFunc(s.Workers, func(a, b heartbeat.Worker) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return s, err
}

// leases is a link as table of leases.
type leases struct{ *link }

func (l leases) Acquire(ctx context.Context, owner partition.WorkerID, ttl time.Duration, ids []partition.ID) (taken []*lease.Lease, err error) {
	err = l.statement(ctx, len(ids), len(ids), func(now time.Time) {
		for _, id := range ids {
			r := &l.rows[id]
			if r.Owner != uuid.Nil && r.Owner != owner && !r.Until.Before(now) {
				continue
			}
			if l.former[id] != owner && l.former[id] != uuid.Nil {
				l.moves++
			}
			r.Owner, r.Until, l.former[id] = owner, now.Add(ttl), owner
			r.Epoch++
			taken = append(taken, lease.Untimed(id, owner, r.Epoch))
		}
	})
	return taken, err
}

func (leases) AcquireSolo(context.Context, partition.WorkerID) ([]*lease.Lease, error) {
	return nil, errors.New("the simulation has leases")
}

// each does something to the rows that still carry owner and epoch.
func (l leases) each(
	ctx context.Context, owner partition.WorkerID, held []*lease.Lease, do func(r *lease.Row, now time.Time),
) (done []partition.ID, err error) {
	err = l.statement(ctx, len(held), len(held), func(now time.Time) {
		for _, h := range held {
			if r := &l.rows[h.Partition]; r.Owner == owner && r.Epoch == h.Epoch {
				do(r, now)
				done = append(done, h.Partition)
			}
		}
	})
	return done, err
}

func (l leases) Renew(
	ctx context.Context, owner partition.WorkerID, ttl, _ time.Duration, held []*lease.Lease,
) (renewed, locked []partition.ID, err error) {
	renewed, err = l.each(ctx, owner, held, func(r *lease.Row, now time.Time) { r.Until = now.Add(ttl) })
	return renewed, nil, err
}

func (l leases) Release(ctx context.Context, owner partition.WorkerID, held []*lease.Lease) ([]partition.ID, error) {
	return l.each(ctx, owner, held, func(r *lease.Row, _ time.Time) { r.Owner, r.Until = uuid.Nil, time.Time{} })
}

func (l leases) Disown(ctx context.Context, owner partition.WorkerID) (ids []partition.ID, err error) {
	err = l.statement(ctx, len(l.rows), 0, func(time.Time) {
		for i := range l.rows {
			if r := &l.rows[i]; r.Owner == owner {
				r.Owner, r.Until = uuid.Nil, time.Time{}
				ids = append(ids, r.Partition)
			}
		}
	})
	return ids, err
}

func (l leases) Snapshot(ctx context.Context) (s lease.Snapshot, err error) {
	err = l.statement(ctx, len(l.rows), 0, func(now time.Time) {
		s.At, s.Rows = now, slices.Clone(l.rows)
		for i := range s.Rows {
			if r := &s.Rows[i]; r.Owner != uuid.Nil {
				r.Left = r.Until.Sub(now)
			}
		}
	})
	return s, err
}
