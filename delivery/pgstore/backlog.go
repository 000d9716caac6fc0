package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// PartitionBacklog counts one partition's rows of the outbox.
type PartitionBacklog struct {
	Partition partition.ID
	// Pending rows can be published now; Failed ones wait for their next
	// attempt, Blocked ones for an earlier row of their stream, Dead ones for a
	// person, Scheduled ones for their time.
	Pending, Failed, Blocked, Dead, Scheduled int64
	// BlockedStreams is the number of streams that the blocked rows belong to.
	BlockedStreams int64
	// OldestPending is the wait of the oldest pending row so far; 0 without one.
	OldestPending time.Duration
	// Start is the first sequence that can be published, or the last delivered one
	// where none can: where Oldest begins to look.
	Start int64
}

// Backlog is the outbox at one instant of the database's clock.
type Backlog struct {
	At         time.Time
	Partitions []PartitionBacklog
}

// Backlog counts the outbox. It reads every row's index entry, so callers that
// show it often keep it for a while.
func (s *Store) Backlog(ctx context.Context) (Backlog, error) {
	var b Backlog
	var err error
	b.Partitions, err = readBehind(ctx, s.db, s.sql.Counting, s.sql.Backlog, nil, func(row pgx.CollectableRow) (PartitionBacklog, error) {
		var p PartitionBacklog
		err := row.Scan(&p.Partition, &p.Pending, &p.Failed, &p.Blocked, &p.Dead, &p.Scheduled, &p.BlockedStreams, &p.OldestPending, &p.Start, &b.At)
		p.OldestPending = max(p.OldestPending, 0)
		return p, err
	})
	if err != nil {
		return Backlog{}, fmt.Errorf("backlog: %w", err)
	}
	return b, nil
}

// readBehind reads the rows of a query behind one that tells the planner how.
func readBehind[T any](ctx context.Context, db pg.DB, planner, query pg.Query, args pg.Args, row pgx.RowToFunc[T]) (list []T, err error) {
	batch := &pgx.Batch{}
	planner.Queue(batch, nil)
	query.Queue(batch, args).Query(func(rows pgx.Rows) (err error) {
		list, err = pgx.CollectRows(rows, row)
		return err
	})
	return list, db.SendBatch(ctx, batch).Close()
}

// PartitionOldest is the wait of one partition's oldest pending row so far.
type PartitionOldest struct {
	Partition partition.ID
	// Pending says that there is such a row, and Waited how long it has waited.
	Pending bool
	Waited  time.Duration
	// Start is the sequence at which the next look may begin.
	Start int64
}

// Oldest is that of every partition at one instant of the database's clock.
type Oldest struct {
	At         time.Time
	Partitions []PartitionOldest
}

// Oldest reads the oldest pending row of every partition, at about the same cost
// whatever the backlog. It begins at the given sequences, the Starts of an earlier
// Oldest or Backlog: rows that came up below them since then, as a replay's do,
// are found by the next Backlog alone. The oldest of many parked rows whose time
// has come is not looked for behind the first hundred.
func (s *Store) Oldest(ctx context.Context, start map[partition.ID]int64) (Oldest, error) {
	ids, from := make([]partition.ID, 0, len(start)), make([]int64, 0, len(start))
	for id, sequence := range start {
		ids, from = append(ids, id), append(from, sequence)
	}
	var o Oldest
	var err error
	args := pg.Args{"partitions": ids, "start": from}
	o.Partitions, err = readBehind(ctx, s.db, s.sql.Probing, s.sql.Oldest, args, func(row pgx.CollectableRow) (PartitionOldest, error) {
		var p PartitionOldest
		err := row.Scan(&p.Partition, &p.Start, &p.Pending, &p.Waited, &o.At)
		p.Waited = max(p.Waited, 0)
		return p, err
	})
	if err != nil {
		return Oldest{}, fmt.Errorf("oldest pending: %w", err)
	}
	return o, nil
}

// Minute counts the events of one minute, over all workers.
type Minute struct {
	At                                  time.Time
	Published, Failed, Retried, Skipped int64
}

// Throughput returns the last minutes, oldest first and the running one last,
// with zeros where nothing happened. It reads only the minute buckets.
func (s *Store) Throughput(ctx context.Context, minutes int) ([]Minute, error) {
	list, err := readBehind(ctx, s.db, s.sql.Counting, s.sql.Throughput, pg.Args{"minutes": minutes}, func(row pgx.CollectableRow) (Minute, error) {
		var m Minute
		err := row.Scan(&m.At, &m.Published, &m.Failed, &m.Retried, &m.Skipped)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("throughput: %w", err)
	}
	return list, nil
}
