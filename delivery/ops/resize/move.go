package resize

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

//go:embed sql/*.sql
var embedded embed.FS

// ErrForeignPartitions means that the producer's own partitioner placed pending rows.
var ErrForeignPartitions = errors.New("pending events were placed by a custom partitioner")

// ErrPaused means that some partitions are paused and others are not: their streams would meet in the same partitions, and could neither
// wait nor go on together.
var ErrPaused = errors.New("partitions are paused")

// ErrCountChanged means that a resize expected another number of partitions.
var ErrCountChanged = errors.New("there is another number of partitions")

// ErrProducers means that transactions that write to the outbox stay open.
var ErrProducers = errors.New("transactions of producers do not end")

var errLeaseGone = errors.New("the lease went to another worker")

type queries struct {
	Count, LockOutbox, LimitWaits, Holders, LockCount, HoldLeases, Paused, PlanMoves, Move, SetCount, PauseAll pg.Query
}

func load(ctx context.Context, db pg.Querier, schema string, events pgstore.Relation) (q queries, err error) {
	columns, err := events.Columns(ctx, db, schema, "sequence")
	if err != nil {
		return q, err
	}
	err = pg.Fill(embedded, "sql/*.sql", "resize", schema, &q,
		"{events}", columns.Relation, "{routing_key}", columns.OrNull("routing_key", "text"))
	return q, err
}

// everythingPaused returns since when all partitions are paused, nil: none. A pause of some is an error.
func (q queries) everythingPaused(ctx context.Context, db pg.RowQuerier) (*time.Time, error) {
	var ids []partition.ID
	var since *time.Time
	var all int
	if err := q.Paused.Row(ctx, db, nil).Scan(&ids, &since, &all); err != nil {
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

// Wanted is refused for these fields.
const (
	FieldCount    = "count"
	FieldExpected = "expected_from"
)

// Wanted describes a resize.
type Wanted struct {
	// To is the new number of partitions, 1 to 32767.
	To int
	// From is the required number before; 0: any.
	From int
	// Actor and Reason are for the audit.
	Actor, Reason string
}

func (o Wanted) check() error {
	if o.To < 1 || o.To > math.MaxInt16 {
		return maintenance.Refuse(FieldCount, "must lie between 1 and %d, got %d", math.MaxInt16, o.To)
	}
	return nil
}

// Resized is the result or, with DryRun, its preview.
type Resized struct {
	From int `json:"from"`
	To   int `json:"to"`
	// Moved counts the pending rows whose partition changes.
	Moved  int  `json:"moved"`
	DryRun bool `json:"dry_run"`
}

// Plan returns Run's result in advance, or its refusal, the words for the audit aside. It reads the events for the keys by which their
// producers placed them. A defect of o is a maintenance.InputError.
func Plan(ctx context.Context, db pg.DB, schema string, events pgstore.Relation, o Wanted) (Resized, error) {
	done := Resized{To: o.To, DryRun: true}
	if err := o.check(); err != nil {
		return done, err
	}
	q, err := load(ctx, db, schema, events)
	if err != nil {
		return done, fmt.Errorf("resize: %w", err)
	}
	if err := q.Count.Row(ctx, db, nil).Scan(&done.From); err != nil {
		return done, fmt.Errorf("resize: %w", err)
	}
	if o.From != 0 && o.From != done.From {
		return done, countChanged(done.From, o.From)
	}
	if done.From == done.To {
		return done, nil
	}
	if _, err := q.everythingPaused(ctx, db); err != nil {
		return done, fmt.Errorf("resize: %w", err)
	}
	var foreign int
	if err := q.PlanMoves.Row(ctx, db, pg.Args{"from": done.From, "to": done.To}).Scan(&foreign, &done.Moved); err != nil {
		return done, fmt.Errorf("resize: count pending rows: %w", err)
	}
	return done, foreigners(foreign)
}

func countChanged(now, from int) error {
	return &maintenance.InputError{
		Field: FieldExpected, Problem: fmt.Sprintf("there are %d partitions, not %d; nothing was changed", now, from), Err: ErrCountChanged,
	}
}

func counted(ctx context.Context, db pg.DB, schema string, events pgstore.Relation) (n int, err error) {
	q, err := load(ctx, db, schema, events)
	if err == nil {
		err = q.Count.Row(ctx, db, nil).Scan(&n)
	}
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	return n, nil
}

func foreigners(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d rows; let them be delivered first", ErrForeignPartitions, n)
}

// Move changes the number of partitions and moves the pending rows to the partitions of their keys, in one transaction. The leases must
// cover every partition and have been taken (loop.Relay.Take), so that no message of any partition is under way. Producers wait
// meanwhile; for those whose transactions are open it waits again and again, with patience in all, and lets others go on between. Each
// stream keeps its order; a partition is another one from then on, so the generation of all messages to come rises. An outbox whose
// partitions are all paused stays paused; if only some are, it is ErrPaused. record writes in the same transaction; nothing moves where
// it fails. With an error moved counts if only the commit's answer was lost.
func Move(
	ctx context.Context, db pg.DB, schema string, events pgstore.Relation, leases []*lease.Lease, to partition.Count, patience time.Duration,
	record func(tx pgx.Tx, from partition.Count, moved int) error,
) (moved int, err error) {
	q, err := load(ctx, db, schema, events)
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	tx, err := q.lockedOut(ctx, db, patience)
	if err != nil {
		return 0, fmt.Errorf("resize: wait for producers: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	var from partition.Count
	if err := q.LockCount.Row(ctx, tx, nil).Scan(&from); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if err := q.holdAll(ctx, tx, leases); err != nil {
		return 0, err
	}
	paused, err := q.everythingPaused(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	var foreign int
	if err := q.Move.Row(ctx, tx, pg.Args{"from": int(from), "to": int(to)}).Scan(&foreign, &moved); err != nil {
		return 0, fmt.Errorf("resize: move pending rows: %w", err)
	}
	if err := foreigners(foreign); err != nil {
		return 0, err
	}
	if _, err := q.SetCount.Exec(ctx, tx, pg.Args{"to": int(to)}); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if err := lease.Recount(ctx, tx, schema, to, leases[0].Owner); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if paused != nil {
		if _, err := q.PauseAll.Exec(ctx, tx, pg.Args{"since": paused}); err != nil {
			return 0, fmt.Errorf("resize: %w", err)
		}
	}
	if err := record(tx, from, moved); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if err := tx.Commit(ctx); err != nil { // it may have been made all the same
		return moved, fmt.Errorf("resize: %w", err)
	}
	return moved, nil
}

const (
	// leastWait and mostWait bound the time in which producers queue behind an endless one, before all of them go on for as long.
	leastWait, mostWait = 500 * time.Millisecond, 4 * time.Second
	// mostIdle bounds the transaction of a process stopped in its midst: the server ends it.
	mostIdle = 10 * time.Second
)

// lockedOut begins a transaction beside which no producer writes.
func (q queries) lockedOut(ctx context.Context, db pg.DB, patience time.Duration) (pgx.Tx, error) {
	over := time.Now().Add(patience)
	for wait := leastWait; ; wait = min(2*wait, mostWait) {
		tx, err := db.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if err = q.lock(ctx, tx, wait); err == nil {
			return tx, nil
		}
		_ = tx.Rollback(context.WithoutCancel(ctx))
		if !maintenance.Contended(err) {
			return nil, err
		}
		if time.Now().After(over) {
			var holders string
			if err := q.Holders.Row(ctx, db, nil).Scan(&holders); err != nil {
				return nil, errors.Join(ErrProducers, err)
			}
			return nil, fmt.Errorf("%w within %s (--timeout): held by %s", ErrProducers, patience, holders)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (q queries) lock(ctx context.Context, tx pgx.Tx, wait time.Duration) error {
	if _, err := q.LimitWaits.Exec(ctx, tx, pg.Args{"lock": new(wait.String()), "idle": mostIdle.String()}); err != nil {
		return err
	}
	if _, err := q.LockOutbox.Exec(ctx, tx, nil); err != nil {
		return err
	}
	_, err := q.LimitWaits.Exec(ctx, tx, pg.Args{"lock": (*string)(nil), "idle": mostIdle.String()})
	return err
}

// holdAll compares every lease row and keeps them locked.
func (q queries) holdAll(ctx context.Context, tx pgx.Tx, leases []*lease.Lease) error {
	ids, epochs := make([]partition.ID, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		ids[i], epochs[i] = l.Partition, l.Epoch
	}
	var all, held int
	err := q.HoldLeases.Row(ctx, tx, pg.Args{"owner": leases[0].Owner, "partitions": ids, "epochs": epochs}).Scan(&all, &held)
	if err == nil && (held < all || held != len(leases)) {
		err = fmt.Errorf("%w: %d of %d partitions are ours", errLeaseGone, held, all)
	}
	if err != nil {
		return fmt.Errorf("resize: %w", err)
	}
	return nil
}
