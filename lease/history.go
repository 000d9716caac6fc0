package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// ChangeKind classes a change of leases.
type ChangeKind string

// The kinds of a change.
const (
	// Taken partitions had no owner that is known, and got one.
	Taken ChangeKind = "taken"
	// Moved partitions were given back by one worker and taken by another.
	Moved ChangeKind = "moved"
	// TakenOver partitions were another's who had been silent until its lease ran out.
	TakenOver ChangeKind = "taken-over"
	// Retaken partitions went to the worker that had had them last.
	Retaken ChangeKind = "retaken"
	// Released partitions were given back.
	Released ChangeKind = "released"
	// Resizing partitions were taken by whoever froze the outbox, to change their number.
	Resizing ChangeKind = "resizing"
	// Removed partitions are no more.
	Removed ChangeKind = "removed"
	// Solo partitions were taken by a worker without leasing. Its end is not recorded.
	Solo ChangeKind = "solo"
)

// Owner is a worker, or another holder of leases.
type Owner struct {
	ID partition.WorkerID
	// Hostname may be empty.
	Hostname string
}

// Nobody reports whether there is no owner, or none that is known.
func (o Owner) Nobody() bool { return o.ID == uuid.Nil }

// Change is one statement's effect on the leases that it found alike.
type Change struct {
	// ID grows with time.
	ID   int64
	At   time.Time
	Kind ChangeKind
	// From had the partitions last, To has them from then on.
	From, To Owner
	// RanOut is the end of From's lease, for takeovers; nil: it did not run out.
	RanOut *time.Time
	// Partitions are ascending. Epochs has one for each: To's, or From's where To is nobody.
	Partitions []partition.ID
	Epochs     []int64
}

// HistoryQuery selects changes.
type HistoryQuery struct {
	// Before excludes this id and those above; 0: from the newest.
	Before int64
	// Partition is the only one; nil: all.
	Partition *partition.ID
	// Since and Until bound the time, both included; zero: not.
	Since, Until time.Time
	// Limit is the largest number of changes.
	Limit int
}

// History has the recorded changes of ownership.
type History struct {
	// Begins is the time of the oldest change that is kept; zero: there is none.
	Begins time.Time
	// Changes match the query, the newest first.
	Changes []Change
}

// History reads changes of ownership.
func (s *Store) History(ctx context.Context, q HistoryQuery) (History, error) {
	var begins *time.Time
	if err := s.sql.HistoryBegins.Row(ctx, s.db, nil).Scan(&begins); err != nil {
		return History{}, fmt.Errorf("history of ownership: %w", err)
	}
	var h History
	var err error
	h.Changes, err = pg.Collect(ctx, s.db, s.sql.History, pg.Args{
		"before": q.Before, "partition": q.Partition, "since": moment(q.Since), "until": moment(q.Until), "limit": q.Limit,
	}, func(row pgx.CollectableRow) (Change, error) {
		var c Change
		var from, to *uuid.UUID
		err := row.Scan(&c.ID, &c.At, &c.Kind, &from, &c.From.Hostname, &to, &c.To.Hostname, &c.RanOut, &c.Partitions, &c.Epochs)
		if from != nil {
			c.From.ID = *from
		}
		if to != nil {
			c.To.ID = *to
		}
		return c, err
	})
	if err != nil {
		return History{}, fmt.Errorf("history of ownership: %w", err)
	}
	if begins != nil {
		h.Begins = *begins
	}
	return h, nil
}

func moment(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
