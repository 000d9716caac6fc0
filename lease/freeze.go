package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// ErrFrozen is returned by Freeze when somebody else, who is alive, froze the outbox.
var ErrFrozen = errors.New("somebody else is changing the partitions now")

// refreeze renews a freeze, which lasts a minute even if the database does not learn that its session is gone.
const refreeze = 10 * time.Second

// Freeze makes the workers give back all leases and take none until thaw is called or this process ends. The lock of an open transaction
// proves that the freezer lives. With its end owner's leases are free, as those of a dead predecessor are now. Needs two connections.
func Freeze(ctx context.Context, db pg.DB, schema string, owner partition.WorkerID, log *slog.Logger) (thaw func() error, err error) {
	store, err := NewStore(ctx, db, schema)
	if err != nil {
		return nil, fmt.Errorf("freeze the outbox: %w", err)
	}
	tx, err := db.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("freeze the outbox: %w", err)
	}
	set := func(ctx context.Context) error {
		_, err := store.sql.Freeze.Exec(ctx, db, pg.Args{"owner": owner})
		return err
	}
	if err = store.takeFreeze(ctx, tx); err == nil {
		err = set(ctx)
	}
	if err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("freeze the outbox: %w", err)
	}
	again, stop := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		ticker := time.NewTicker(refreeze)
		defer ticker.Stop()
		for {
			select {
			case <-again.Done():
				return
			case <-ticker.C:
			}
			if err := set(again); err != nil && again.Err() == nil {
				log.Warn("the freeze could not be renewed", "error", err)
			}
		}
	})
	return func() error {
		stop()
		renewing.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreeze)
		defer cancel()
		_, err := store.sql.Thaw.Exec(ctx, db, pg.Args{"owner": owner})
		return errors.Join(err, tx.Rollback(ctx))
	}, nil
}

// takeFreeze takes the lock and frees what its last holder left.
func (s *Store) takeFreeze(ctx context.Context, tx pgx.Tx) error {
	if _, err := s.sql.StayIdle.Exec(ctx, tx, nil); err != nil {
		return err
	}
	var before *uuid.UUID
	err := s.sql.LockFreeze.Row(ctx, tx, nil).Scan(&before)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrFrozen
	case err != nil || before == nil:
		return err
	}
	_, err = s.Disown(ctx, *before)
	return err
}

// Census counts the partitions, and those that a resize holds.
type Census struct {
	Partitions int
	// Frozen reports whether the outbox is frozen, Returned how many partitions the freezer holds.
	Frozen   bool
	Returned int
	// ResizedAt is the time of the last resize, by the database's clock; nil: never.
	ResizedAt *time.Time
}

// Census reads the tables, so that it sees every resize.
func (s *Store) Census(ctx context.Context) (at Census, err error) {
	if err := s.sql.Census.Row(ctx, s.db, nil).Scan(&at.Partitions, &at.Frozen, &at.Returned, &at.ResizedAt); err != nil {
		return at, fmt.Errorf("look at the number of partitions: %w", err)
	}
	return at, nil
}
