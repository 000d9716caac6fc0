package parts

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/pg"
)

//go:embed sql/*.sql
var embedded embed.FS

// Defaults of a Config.
const (
	// LockWait bounds a producer's wait, in one try, for a lock of this package. It is shorter than deadlock_timeout, so that this
	// package gives up first.
	LockWait = 500 * time.Millisecond
	// Patience bounds all tries for a lock.
	Patience = time.Minute
)

// Errors to branch on.
var (
	// ErrBusy means that others locked the table of events all the time; the text names them.
	ErrBusy = errors.New("the table of events is in use")
	// ErrNotSplit means that events are unpartitioned.
	ErrNotSplit = errors.New("events are not in parts")
)

// Config configures New.
type Config struct {
	// Pool connects as the tables' owner. Required.
	Pool *pgxpool.Pool
	// Schema holds the outbox. Required.
	Schema string
	// Patience bounds all tries for a lock. Defaults to Patience.
	Patience time.Duration
}

// Store changes the table of events.
type Store struct {
	pool     *pgxpool.Pool
	audit    *maintenance.Outbox
	patience time.Duration
	sql      queries
}

type queries struct {
	Patience, State, Bound, Validate, Split, Begin, Drop, Analyze, Parts, Events, Holders pg.Query
}

// New returns the store of one outbox.
func New(c Config) (*Store, error) {
	s := &Store{pool: c.Pool, patience: c.Patience}
	s.patience = cmp.Or(s.patience, Patience)
	if err := pg.Fill(embedded, "sql/*.sql", "parts", c.Schema, &s.sql); err != nil {
		return nil, err
	}
	var err error
	s.audit, err = maintenance.New(c.Pool, c.Schema)
	return s, err
}

// Part is one part of the events.
type Part struct {
	Number int64  `json:"part"`
	Table  string `json:"table"`
	// Events is estimated from the statistics.
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
	// First and Last are its lowest and highest sequence, with the times of their recording; nil where it is empty.
	First         *int64     `json:"first_sequence"`
	FirstRecorded *time.Time `json:"first_recorded_at"`
	Last          *int64     `json:"last_sequence"`
	LastRecorded  *time.Time `json:"last_recorded_at"`
}

// List returns the parts in their order. It returns ErrNotSplit where there are none.
func (s *Store) List(ctx context.Context) ([]Part, error) {
	if err := s.mustBeSplit(ctx); err != nil {
		return nil, err
	}
	rows, err := s.sql.Parts.Rows(ctx, s.pool, nil)
	if err != nil {
		return nil, fmt.Errorf("list the parts of events: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Part, err error) {
		err = row.Scan(&p.Number, &p.Table, &p.Events, &p.Bytes, &p.First, &p.FirstRecorded, &p.Last, &p.LastRecorded)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the parts of events: %w", err)
	}
	return list, nil
}

// state reports whether events are in parts, and if not the hindrance; "": nothing.
func (s *Store) state(ctx context.Context) (split bool, hindrance string, err error) {
	var relation string
	if err := s.sql.State.Row(ctx, s.pool, nil).Scan(&split, &relation, &hindrance); err != nil {
		return false, "", fmt.Errorf("read how events are kept: %w", err)
	}
	if relation != "events" {
		hindrance = fmt.Sprintf("the outbox reads its events from %s", relation)
	}
	return split, hindrance, nil
}

func (s *Store) mustBeSplit(ctx context.Context) error {
	split, _, err := s.state(ctx)
	if err == nil && !split {
		err = ErrNotSplit
	}
	return err
}

// locked runs fn in a transaction that waits for locks no longer than LockWait, again and again while others hold them. Exclusive locks
// wait for readers, too.
func (s *Store) locked(ctx context.Context, exclusive bool, fn func(pgx.Tx) error) error {
	var busy bool
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		// Changes committed during the wait for a lock must show, whatever the database's default is.
		err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if _, err := s.sql.Patience.Exec(ctx, tx, pg.Args{"wait": LockWait.String()}); err != nil {
				return err
			}
			return fn(tx)
		})
		busy = maintenance.Contended(err)
		if err != nil && !busy {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(s.patience))
	if err == nil || !busy {
		return err
	}
	var holders string
	if err := s.sql.Holders.Row(ctx, s.pool, pg.Args{"all": exclusive}).Scan(&holders); err != nil {
		return errors.Join(ErrBusy, err)
	}
	return fmt.Errorf("%w: tried for %s; held now by %s", ErrBusy, s.patience, holders)
}
