package heartbeat

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/sqlfile"
)

//go:embed sql/*.sql
var statements embed.FS

// DB is what a store needs of a pgx connection or pool.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Store reads and writes outbox_workers.
type Store struct {
	db                           DB
	beat, leave, purge, snapshot string
}

// NewStore returns a store on the tables of that schema. It fails when the
// schema is not a plain identifier.
func NewStore(db DB, schema string) (*Store, error) {
	set, err := sqlfile.Load(statements, "sql", schema)
	if err != nil {
		return nil, fmt.Errorf("heartbeat store: %w", err)
	}
	texts, err := set.Need("beat", "leave", "purge", "snapshot")
	if err != nil {
		return nil, fmt.Errorf("heartbeat store: %w", err)
	}
	return &Store{db: db, beat: texts[0], leave: texts[1], purge: texts[2], snapshot: texts[3]}, nil
}

// Beat writes the worker's row: it is a member for ttl from now, by the
// database's clock.
func (s *Store) Beat(ctx context.Context, w Worker, ttl time.Duration) error {
	_, err := s.db.Exec(ctx, s.beat, w.ID, w.Hostname, w.PID, w.Version, ttl, string(w.State), w.Shape)
	if err != nil {
		return fmt.Errorf("beat of worker %s: %w", w.ID, err)
	}
	return nil
}

// Leave deletes the worker's row.
func (s *Store) Leave(ctx context.Context, w Worker) error {
	if _, err := s.db.Exec(ctx, s.leave, w.ID); err != nil {
		return fmt.Errorf("leave of worker %s: %w", w.ID, err)
	}
	return nil
}

// Purge deletes the rows that have been stale for longer than after and tells
// how many there were.
func (s *Store) Purge(ctx context.Context, after time.Duration) (int64, error) {
	tag, err := s.db.Exec(ctx, s.purge, after)
	if err != nil {
		return 0, fmt.Errorf("purge of stale workers: %w", err)
	}
	return tag.RowsAffected(), nil
}

// Snapshot reads all workers, stale ones included, sorted by id.
func (s *Store) Snapshot(ctx context.Context) (Snapshot, error) {
	rows, err := s.db.Query(ctx, s.snapshot)
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of workers: %w", err)
	}
	var snap Snapshot
	snap.Workers, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Worker, error) {
		var w Worker
		err := row.Scan(&w.ID, &w.Hostname, &w.PID, &w.Version, &w.State,
			&w.StartedAt, &w.HeartbeatUntil, &w.Left, &w.DrainRequestedAt, &w.Shape, &snap.At)
		return w, err
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of workers: %w", err)
	}
	return snap, nil
}
