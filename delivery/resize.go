package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/sqlfile"
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
	move, plan, paused string
}

func loadResize(ctx context.Context, db Querier, schema string, events Relation) (r resizing, err error) {
	set, err := sqlfile.Load(statements, "sql", schema)
	if err != nil {
		return r, err
	}
	columns, err := events.Columns(ctx, db, schema, "sequence")
	if err != nil {
		return r, err
	}
	relation := strings.NewReplacer("{events}", columns.Relation, "{routing_key}", columns.OrNull("routing_key", "text"))
	placed := strings.NewReplacer("{placed}", relation.Replace(strings.TrimSpace(set["resize_placed"])))
	return resizing{placed.Replace(set["resize"]), placed.Replace(set["resize_plan"]), set["resize_paused"]}, nil
}

// everythingPaused tells whether and since when all partitions are paused. That only some are is an error.
func (r resizing) everythingPaused(ctx context.Context, db rowDB) (*time.Time, error) {
	var ids []partition.ID
	var since *time.Time
	var all int
	if err := db.QueryRow(ctx, r.paused).Scan(&ids, &since, &all); err != nil {
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
	if err := db.QueryRow(ctx, r.plan, int(from), int(to)).Scan(&foreign, &moved); err != nil {
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
	in := pgx.Identifier{schema}.Sanitize() + "."
	tx, err := db.Begin(ctx)
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit it does nothing
	// Whoever appends holds these locks until its commit, and reads the count in
	// the statement that then inserts.
	if _, err := tx.Exec(ctx, `LOCK TABLE `+in+`outbox, `+in+`outbox_ready, `+in+`outbox_parked IN EXCLUSIVE MODE`); err != nil {
		return 0, fmt.Errorf("resize: wait for producers: %w", err)
	}
	var from partition.Count
	if err := tx.QueryRow(ctx, `SELECT partition_count FROM `+in+`outbox_settings FOR UPDATE`).Scan(&from); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if err := holdAll(ctx, tx, in, leases); err != nil {
		return 0, err
	}
	paused, err := r.everythingPaused(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	var foreign int
	if err := tx.QueryRow(ctx, r.move, int(from), int(to)).Scan(&foreign, &moved); err != nil {
		return 0, fmt.Errorf("resize: move pending rows: %w", err)
	}
	if err := foreigners(foreign); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, `UPDATE `+in+`outbox_settings SET partition_count = $1, generation = generation + 1, resized_at = clock_timestamp()`, int(to)); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if err := lease.Recount(ctx, tx, schema, to, leases[0].Owner); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if paused != nil {
		if _, err := tx.Exec(ctx, `UPDATE `+in+`outbox_partitions SET paused_at = $1 WHERE paused_at IS NULL`, paused); err != nil {
			return 0, fmt.Errorf("resize: %w", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	return moved, nil
}

// holdAll compares every lease row and keeps them locked.
func holdAll(ctx context.Context, tx pgx.Tx, in string, leases []*lease.Lease) error {
	ids, epochs := make([]partition.ID, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		ids[i], epochs[i] = l.Partition, l.Epoch
	}
	var all, held int
	err := tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM `+in+`outbox_partitions), count(*)
		FROM (SELECT p.partition_key FROM unnest($2::smallint[], $3::bigint[]) AS mine (partition_key, epoch)
		        JOIN `+in+`outbox_partitions AS p USING (partition_key)
		       WHERE p.lease_owner = $1 AND p.lease_epoch = mine.epoch
		       ORDER BY p.partition_key FOR UPDATE OF p) AS h`, leases[0].Owner, ids, epochs).Scan(&all, &held)
	if err == nil && (held < all || held != len(leases)) {
		err = fmt.Errorf("%w: %d of %d partitions are ours", errLeaseGone, held, all)
	}
	if err != nil {
		return fmt.Errorf("resize: %w", err)
	}
	return nil
}
