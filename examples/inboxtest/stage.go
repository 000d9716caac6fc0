package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox"
)

//go:embed stage.sql
var stageSQL string

// stage is the database in which consumers make their effects.
type stage struct {
	address string
	pool    *pgxpool.Pool
}

// newStage makes the tables that are missing.
func newStage(ctx context.Context, address string) (*stage, error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, errors.New("--database or DATABASE_URL cannot be read as an address") // the error would show it, with its password
	}
	if err := inbox.Migrate(ctx, pool, ""); err != nil {
		pool.Close()
		return nil, err
	}
	if _, err := pool.Exec(ctx, stageSQL); err != nil {
		pool.Close()
		return nil, fmt.Errorf("make the tables of the test: %w", err)
	}
	return &stage{address: address, pool: pool}, nil
}

// effects are those of a stream, in their order.
func (s *stage) effects(ctx context.Context, stream string) ([]place, error) {
	rows, err := s.pool.Query(ctx, `SELECT version, event_id FROM inboxtest_effects WHERE stream = $1 ORDER BY id`, stream)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[place])
}

// place is a version with the event that has it.
type place struct {
	Version int64
	Event   uuid.UUID
}

// String implements fmt.Stringer.
func (p place) String() string { return fmt.Sprintf("%d (%.8s)", p.Version, p.Event) }

// fail has the effect of an event fail from now on, or no more.
func (s *stage) fail(ctx context.Context, event uuid.UUID, fails bool) error {
	sql := `DELETE FROM inboxtest_faults WHERE event_id = $1`
	if fails {
		sql = `INSERT INTO inboxtest_faults VALUES ($1)`
	}
	_, err := s.pool.Exec(ctx, sql, event)
	return err
}

// due lets the time pass until every parked message of a consumer that may be tried is due.
func (s *stage) due(ctx context.Context, consumer string) error {
	_, err := s.pool.Exec(ctx, `UPDATE inbox_parked SET due_at = clock_timestamp() WHERE consumer = $1 AND due_at IS NOT NULL`, consumer)
	return err
}

// hold stops sessions inside the effect of an event until release is called, which may be more than once.
func (s *stage) hold(ctx context.Context, event uuid.UUID) (release func() error, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	const number = 18
	_, err = conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, number)
	if err == nil {
		_, err = conn.Exec(ctx, `INSERT INTO inboxtest_holds VALUES ($1, $2)`, event, number)
	}
	if err != nil {
		conn.Release()
		return nil, err
	}
	released := false
	return func() error {
		if released {
			return nil
		}
		released = true
		defer conn.Release()
		_, err := conn.Exec(context.WithoutCancel(ctx), `DELETE FROM inboxtest_holds WHERE event_id = $1`, event)
		if err == nil {
			_, err = conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, number)
		}
		return err
	}, nil
}

// waiting are the sessions of the database that wait for a lock.
func (s *stage) waiting(ctx context.Context) ([]int32, error) {
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT l.pid FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
		WHERE NOT l.granted AND a.datname = current_database()`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int32])
}

// end ends sessions, and returns when they are gone.
func (s *stage) end(ctx context.Context, sessions []int32) error {
	return s.until(ctx, func(ctx context.Context) (gone bool, err error) {
		err = s.pool.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_activity WHERE pid = ANY ($1)`, sessions).Scan(&gone)
		return gone, err
	})
}

// patience is how long a consumer may take for one thing.
const patience = 20 * time.Second

// until waits until something is so, or for so long.
func (s *stage) until(ctx context.Context, is func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for {
		done, err := is(ctx)
		if err != nil && ctx.Err() == nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-pace.C:
		}
	}
}
