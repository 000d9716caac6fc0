package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/pg"
)

// RetentionConfig bounds the history.
type RetentionConfig struct {
	// History is the age up to which deliveries and dedupe keys are kept; 0 keeps them for
	// ever. Defaults to 0 here and to 7 days in the command.
	History time.Duration
	// Throughput is the age up to which minute buckets are kept. Defaults to 48 h.
	Throughput time.Duration
	// Ownership bounds the changes of ownership that are kept. Defaults to 20,000.
	Ownership int
	// Every is the time between two sweeps. Defaults to 10 min.
	Every time.Duration
	// Chunk is the most rows that one statement deletes. Defaults to 1000.
	Chunk int
	// Random draws from [0, 1) to spread the workers' sweeps. Defaults to
	// math/rand/v2.
	Random func() float64
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// Validate refuses values outside their ranges, by name.
func (c RetentionConfig) Validate() error {
	switch {
	case c.History < 0:
		return fmt.Errorf("%w: RetentionConfig.History must not be negative, got %s", delivery.ErrConfig, c.History)
	case c.Throughput < 0 || c.Ownership < 0 || c.Every < 0 || c.Chunk < 0:
		return fmt.Errorf("%w: RetentionConfig.Throughput, Ownership, Every and Chunk must not be negative", delivery.ErrConfig)
	}
	return nil
}

// Sweeper deletes what is over. Every worker runs one; rows that another
// sweeper holds are left to it, so that none waits for long. Pending, failed, blocked
// and dead rows are never touched.
type Sweeper struct {
	cfg   RetentionConfig
	db    pg.Execer
	store *Store
}

// NewSweeper returns a sweeper on the store's tables.
func NewSweeper(store *Store, db pg.Execer, cfg RetentionConfig) (*Sweeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Throughput = cmp.Or(cfg.Throughput, 48*time.Hour)
	cfg.Ownership = cmp.Or(cfg.Ownership, 20_000)
	cfg.Every = cmp.Or(cfg.Every, 10*time.Minute)
	cfg.Chunk = cmp.Or(cfg.Chunk, 1000)
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Sweeper{cfg: cfg, db: db, store: store}, nil
}

// Run sweeps until the context ends. A failed sweep is logged and repeated in
// its turn.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		wait := time.Duration((0.5 + s.cfg.Random()) * float64(s.cfg.Every))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if deleted, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("sweep failed", "error", err)
		} else if deleted > 0 {
			s.cfg.Logger.Info("swept what is past its retention", "rows", deleted)
		}
	}
}

// Sweep deletes everything past its retention once, in chunks, and returns the
// number of rows.
func (s *Sweeper) Sweep(ctx context.Context) (deleted int64, err error) {
	var failed []error
	for _, one := range []struct {
		query pg.Query
		keep  any
	}{
		{s.store.sql.RetainDeliveries, s.cfg.History},
		{s.store.sql.RetainDedupe, s.cfg.History},
		{s.store.sql.RetainThroughput, s.cfg.Throughput},
		{s.store.sql.RetainOwnership, s.cfg.Ownership},
	} {
		for one.keep != time.Duration(0) {
			tag, err := one.query.Exec(ctx, s.db, pg.Args{"keep": one.keep, "most": s.cfg.Chunk})
			if err != nil { // the others are swept all the same
				failed = append(failed, fmt.Errorf("sweep: %w", err))
				break
			}
			deleted += tag.RowsAffected()
			if tag.RowsAffected() < int64(s.cfg.Chunk) {
				break
			}
		}
	}
	return deleted, errors.Join(failed...)
}
