package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/partition"
)

// PartitionBacklog is what one partition's part of the outbox holds.
type PartitionBacklog struct {
	Partition partition.ID
	// Pending rows can be published now; Failed ones wait for their next
	// attempt, Blocked ones for an earlier row of their stream, Dead ones for a
	// person, Scheduled ones for their time.
	Pending, Failed, Blocked, Dead, Scheduled int64
	// BlockedStreams is the number of streams that the blocked rows belong to.
	BlockedStreams int64
	// OldestPending is how long the oldest pending row has waited; 0 without one.
	OldestPending time.Duration
}

// Backlog is the outbox at one instant of the database's clock.
type Backlog struct {
	At         time.Time
	Partitions []PartitionBacklog
}

// counting takes one core at most, so that the time it takes is what it costs. The
// planner takes small reads for large ones, for which compiling them would cost
// more than they do.
const counting = `SELECT set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)`

// Backlog counts the outbox. It reads every row's index entry, so callers that
// show it often keep it for a while.
func (s *Store) Backlog(ctx context.Context) (Backlog, error) {
	var b Backlog
	batch := &pgx.Batch{}
	batch.Queue(counting)
	batch.Queue(s.backlog).Query(func(rows pgx.Rows) (err error) {
		b.Partitions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (PartitionBacklog, error) {
			var p PartitionBacklog
			err := row.Scan(&p.Partition, &p.Pending, &p.Failed, &p.Blocked, &p.Dead, &p.Scheduled, &p.BlockedStreams, &p.OldestPending, &b.At)
			p.OldestPending = max(p.OldestPending, 0)
			return p, err
		})
		return err
	})
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return Backlog{}, fmt.Errorf("backlog: %w", err)
	}
	return b, nil
}

// Minute is what happened in one minute, over all workers.
type Minute struct {
	At                                  time.Time
	Published, Failed, Retried, Skipped int64
}

// Throughput returns the last minutes, oldest first and the running one last,
// with zeros where nothing happened. It reads only the minute buckets.
func (s *Store) Throughput(ctx context.Context, minutes int) ([]Minute, error) {
	var list []Minute
	batch := &pgx.Batch{}
	batch.Queue(counting)
	batch.Queue(s.throughput, minutes).Query(func(rows pgx.Rows) (err error) {
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Minute, error) {
			var m Minute
			err := row.Scan(&m.At, &m.Published, &m.Failed, &m.Retried, &m.Skipped)
			return m, err
		})
		return err
	})
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("throughput: %w", err)
	}
	return list, nil
}
