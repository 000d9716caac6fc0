package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/sqlfile"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// ErrForeignPartitions is returned when pending rows lie where a partitioner of
// the producer's own has put them.
var ErrForeignPartitions = errors.New("pending events were placed by a custom partitioner")

// Beginner starts transactions; a pgx connection or pool.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Resize changes the number of partitions and moves the pending rows to where
// their keys belong, in one transaction. The leases must cover every partition and
// have been taken (Take), so that nothing of any of them is under way.
// Producers wait meanwhile. Each stream keeps its order; a partition is another
// one from then on, so the generation of all messages to come rises.
func Resize(ctx context.Context, db Beginner, schema string, leases []*lease.Lease, to partition.Count) (moved int, err error) {
	set, err := sqlfile.Load(statements, "sql", schema)
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
	var foreign int
	if err := tx.QueryRow(ctx, set["resize"], int(from), int(to)).Scan(&foreign, &moved); err != nil {
		return 0, fmt.Errorf("resize: move pending rows: %w", err)
	}
	if foreign > 0 {
		return 0, fmt.Errorf("%w: %d rows; let them be delivered first", ErrForeignPartitions, foreign)
	}
	for _, step := range []string{
		`UPDATE ` + in + `outbox_settings SET partition_count = $1, generation = generation + 1`,
		`INSERT INTO ` + in + `outbox_partitions (partition_key) SELECT n FROM generate_series(0, $1::int - 1) AS n ON CONFLICT DO NOTHING`,
		`DELETE FROM ` + in + `outbox_partitions WHERE partition_key >= $1::int`,
	} {
		if _, err := tx.Exec(ctx, step, int(to)); err != nil {
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
