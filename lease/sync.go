package lease

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// Sync makes outbox_partitions hold a row for each of count partitions. With prune it removes free and empty rows above them;
// with dryRun it only counts. A removed row comes back with its epoch and positions, one that was deleted by hand with those of
// the history.
func (s *Store) Sync(ctx context.Context, count partition.Count, prune, dryRun bool) (added, removed int64, err error) {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("sync partitions: %w", err)
	}
	defer tx.Rollback(ctx)
	tag, err := s.sql.SyncAdd.Exec(ctx, tx, pg.Args{"count": int(count)})
	if err != nil {
		return 0, 0, fmt.Errorf("sync partitions: %w", err)
	}
	added = tag.RowsAffected()
	if prune {
		if tag, err = s.sql.SyncPrune.Exec(ctx, tx, pg.Args{"count": int(count), "owner": nil}); err != nil {
			return 0, 0, fmt.Errorf("sync partitions: %w", err)
		}
		removed = tag.RowsAffected()
	}
	if dryRun {
		return added, removed, nil
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, 0, fmt.Errorf("sync partitions: %w", err)
	}
	return added, removed, nil
}

// Recount makes outbox_partitions hold exactly count rows. Removed partitions must be held by owner, and be empty.
func Recount(ctx context.Context, tx pgx.Tx, schema string, count partition.Count, owner partition.WorkerID) error {
	s, err := NewStore(ctx, tx, schema)
	if err != nil {
		return fmt.Errorf("recount partitions: %w", err)
	}
	if _, err := s.sql.SyncAdd.Exec(ctx, tx, pg.Args{"count": int(count)}); err != nil {
		return fmt.Errorf("recount partitions: %w", err)
	}
	if _, err := s.sql.SyncPrune.Exec(ctx, tx, pg.Args{"count": int(count), "owner": owner}); err != nil {
		return fmt.Errorf("recount partitions: %w", err)
	}
	var rows int
	if err := s.sql.Count.Row(ctx, tx, nil).Scan(&rows); err != nil {
		return fmt.Errorf("recount partitions: %w", err)
	}
	if rows != int(count) {
		return fmt.Errorf("recount partitions: %d rows are left, want %d: some are held or not empty", rows, count)
	}
	return nil
}
