package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// ErrForeignPartitions is returned when pending rows lie where a partitioner of
// the producer's own has put them.
var ErrForeignPartitions = errors.New("pending events were placed by a custom partitioner")

// Beginner reads and starts transactions; a pgx connection or pool.
type Beginner interface {
	Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// ErrPaused is returned when some partitions are paused and others are not: their
// streams would meet in the same partitions, and could neither wait nor go on together.
var ErrPaused = errors.New("partitions are paused")

// resizing is the statements of a resize.
type resizing struct {
	LockOutbox, LockCount, HoldLeases, Paused, PlanMoves, Move, SetCount, PauseAll pg.Query
}

func loadResize(ctx context.Context, db Querier, schema string, events Relation) (r resizing, err error) {
	columns, err := events.Columns(ctx, db, schema, "sequence")
	if err != nil {
		return r, err
	}
	err = pg.Fill(statements, "sql/resize/*.sql", "delivery", schema, &r,
		"{events}", columns.Relation, "{routing_key}", columns.OrNull("routing_key", "text"))
	return r, err
}

// everythingPaused tells whether and since when all partitions are paused. That only some are is an error.
func (r resizing) everythingPaused(ctx context.Context, db rowDB) (*time.Time, error) {
	var ids []partition.ID
	var since *time.Time
	var all int
	if err := r.Paused.Row(ctx, db, nil).Scan(&ids, &since, &all); err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids) == all {
		return since, nil
	}
	const most = 20
	list := strings.Trim(fmt.Sprint(ids[:min(len(ids), most)]), "[]")
	if len(ids) > most {
		list += " …"
	}
	return nil, fmt.Errorf("%w: %d of %d (%s), and their streams would come to lie beside others: resume them first (postrider partitions resume %s), or pause all",
		ErrPaused, len(ids), all, list, list)
}

// rowDB reads rows.
type rowDB interface {
	Querier
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// PlanResize returns how many pending rows Resize would move now, or why it would
// refuse. The events are read for the keys by which their producers placed them.
func PlanResize(ctx context.Context, db rowDB, schema string, events Relation, from, to partition.Count) (moved int, err error) {
	r, err := loadResize(ctx, db, schema, events)
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if _, err := r.everythingPaused(ctx, db); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	var foreign int
	if err := r.PlanMoves.Row(ctx, db, pg.Args{"from": int(from), "to": int(to)}).Scan(&foreign, &moved); err != nil {
		return 0, fmt.Errorf("resize: count pending rows: %w", err)
	}
	return moved, foreigners(foreign)
}

func foreigners(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d rows; let them be delivered first", ErrForeignPartitions, n)
}

// Resize changes the number of partitions and moves the pending rows to where
// their keys belong, in one transaction. The leases must cover every partition and
// have been taken (Take), so that nothing of any of them is under way.
// Producers wait meanwhile. Each stream keeps its order; a partition is another
// one from then on, so the generation of all messages to come rises. An outbox whose
// partitions are all paused stays paused; if only some are, it is ErrPaused.
func Resize(ctx context.Context, db Beginner, schema string, events Relation, leases []*lease.Lease, to partition.Count) (moved int, err error) {
	r, err := loadResize(ctx, db, schema, events)
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	tx, err := db.Begin(ctx)
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit it does nothing
	if _, err := r.LockOutbox.Exec(ctx, tx, nil); err != nil {
		return 0, fmt.Errorf("resize: wait for producers: %w", err)
	}
	var from partition.Count
	if err := r.LockCount.Row(ctx, tx, nil).Scan(&from); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if err := r.holdAll(ctx, tx, leases); err != nil {
		return 0, err
	}
	paused, err := r.everythingPaused(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	var foreign int
	if err := r.Move.Row(ctx, tx, pg.Args{"from": int(from), "to": int(to)}).Scan(&foreign, &moved); err != nil {
		return 0, fmt.Errorf("resize: move pending rows: %w", err)
	}
	if err := foreigners(foreign); err != nil {
		return 0, err
	}
	if _, err := r.SetCount.Exec(ctx, tx, pg.Args{"to": int(to)}); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if err := lease.Recount(ctx, tx, schema, to, leases[0].Owner); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if paused != nil {
		if _, err := r.PauseAll.Exec(ctx, tx, pg.Args{"since": paused}); err != nil {
			return 0, fmt.Errorf("resize: %w", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	return moved, nil
}

// holdAll compares every lease row and keeps them locked.
func (r resizing) holdAll(ctx context.Context, tx pgx.Tx, leases []*lease.Lease) error {
	ids, epochs := make([]partition.ID, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		ids[i], epochs[i] = l.Partition, l.Epoch
	}
	var all, held int
	err := r.HoldLeases.Row(ctx, tx, pg.Args{"owner": leases[0].Owner, "partitions": ids, "epochs": epochs}).Scan(&all, &held)
	if err == nil && (held < all || held != len(leases)) {
		err = fmt.Errorf("%w: %d of %d partitions are ours", errLeaseGone, held, all)
	}
	if err != nil {
		return fmt.Errorf("resize: %w", err)
	}
	return nil
}
