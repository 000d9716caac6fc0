package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
)

// RetentionConfig says how long what is over is kept.
type RetentionConfig struct {
	// History is how long deliveries and dedupe keys are kept; 0 keeps them for
	// ever. Defaults to 0 here and to 7 days in the command.
	History time.Duration
	// Throughput is how long minute buckets are kept. Defaults to 48 h.
	Throughput time.Duration
	// Ownership is how many changes of ownership are kept. Defaults to 20,000.
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
		return fmt.Errorf("%w: RetentionConfig.History must not be negative, got %s", ErrConfig, c.History)
	case c.Throughput < 0 || c.Ownership < 0 || c.Every < 0 || c.Chunk < 0:
		return fmt.Errorf("%w: RetentionConfig.Throughput, Ownership, Every and Chunk must not be negative", ErrConfig)
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
		cfg.Random = defaultRandom
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

// known is a record of a partition behind which no older one is needed, once the database has known of it for long.
type known struct {
	session       Session
	last, written uint64    // as the publisher tells
	since         time.Time // when the database was seen to know all up to there; zero: it was not
}

// trimEvery is how often it is looked which records are old: seldom where all stay.
func trimEvery(c Config) time.Duration {
	const most = 10 * time.Second
	if c.KeepRecords == 0 {
		return most
	}
	return min(most, max(c.KeepRecords/2, 50*time.Millisecond))
}

// trimLater is when it is tried again to remove records, where nobody might.
const trimLater = time.Hour

// trim has the stream let go of records that the database has known of for KeepRecords (ADR 28): only one that forgot
// as much would have them read. It is done in the background, for one partition after the other.
func (r *Relay) trim(ctx context.Context) {
	now := time.Now()
	if r.cfg.KeepRecords == 0 || r.trimming || now.Before(r.trimAgain) {
		return
	}
	type job struct {
		lease *lease.Lease
		known
	}
	var due []job
	for _, f := range r.flows {
		if f.session == nil || !f.lease.Valid() {
			continue
		}
		k := &f.known
		if k.session != f.session {
			*k = known{session: f.session}
			k.last, k.written = r.publisher.Records(f.session)
		}
		switch {
		case k.since.IsZero() && f.knows(k.last):
			k.since = now
		case !k.since.IsZero() && now.Sub(k.since) >= r.cfg.KeepRecords:
			due = append(due, job{f.lease, *k})
			*k = known{}
		}
	}
	if len(due) == 0 {
		return
	}
	r.trimming = true
	r.begin(func() func() {
		var err error
		for _, d := range due {
			for more := true; more && err == nil && d.lease.Valid(); {
				began := time.Now()
				if more, err = r.publisher.Trim(ctx, d.lease.Partition, d.session, d.last, d.written); err == nil {
					err = Breathe(ctx, time.Since(began))
				}
			}
		}
		return func() { r.trimmed(err) }
	})
}

// trimmed ends it. What failed for another reason than a right is tried again in its time.
func (r *Relay) trimmed(err error) {
	r.trimming = false
	if !errors.Is(err, ErrConfiguration) {
		return
	}
	if r.trimAgain.IsZero() { // it is said once
		r.log.Warn("the records of former batches stay in the stream: let workers purge it, or run `postrider partitions trim` now and then", "error", err)
	}
	r.trimAgain = time.Now().Add(trimLater)
}

// knows tells whether the database knows of all records up to that one. The last one may be a fence, which has nothing to be marked.
func (f *flow) knows(last uint64) bool {
	return f.recorded >= last || f.stage == ready && len(f.unmarked) == 0
}

// breather is how many times as long as the server worked at a purge it is left alone.
const breather = 20

// Breathe waits after a purge that took so long.
func Breathe(ctx context.Context, took time.Duration) error {
	timer := time.NewTimer(breather * took)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
