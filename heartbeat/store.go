package heartbeat

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/internal/pg"
)

//go:embed sql/*.sql
var statements embed.FS

// Store reads and writes outbox_workers.
type Store struct {
	db    pg.DB
	sql   queries
	watch pg.Watch[uuid.UUID, time.Time] // of heartbeats that are ahead
}

type queries struct{ Beat, Leave, Purge, Snapshot pg.Query }

// NewStore returns a store on the tables of that schema. It fails when the schema is not a plain identifier.
func NewStore(db pg.DB, schema string) (*Store, error) {
	s := &Store{db: db}
	if err := pg.Fill(statements, "sql/*.sql", "heartbeat", schema, &s.sql); err != nil {
		return nil, fmt.Errorf("heartbeat store: %w", err)
	}
	return s, nil
}

// Beat writes the worker's row: it is a member for ttl from now, by the database's clock.
func (s *Store) Beat(ctx context.Context, w Worker, ttl time.Duration) error {
	var reason, detail string
	var age time.Duration
	if c := w.Condition; c != nil {
		reason, detail, age = string(c.Reason), c.Detail, time.Since(c.Since)
	}
	_, err := s.sql.Beat.Exec(ctx, s.db, pg.Args{
		"worker": w.ID, "hostname": w.Hostname, "pid": w.PID, "version": w.Version, "ttl": ttl, "state": string(w.State), "shape": w.Shape, "canary": w.Canary,
		"reason": reason, "detail": detail, "age": age,
	})
	if err != nil {
		return fmt.Errorf("beat of worker %s: %w", w.ID, err)
	}
	return nil
}

// Leave deletes the worker's row.
func (s *Store) Leave(ctx context.Context, w Worker) error {
	if _, err := s.sql.Leave.Exec(ctx, s.db, pg.Args{"worker": w.ID}); err != nil {
		return fmt.Errorf("leave of worker %s: %w", w.ID, err)
	}
	return nil
}

// Purge deletes the rows that have been stale for longer than after and returns their number.
func (s *Store) Purge(ctx context.Context, after time.Duration) (int64, error) {
	tag, err := s.sql.Purge.Exec(ctx, s.db, pg.Args{"after": after})
	if err != nil {
		return 0, fmt.Errorf("purge of stale workers: %w", err)
	}
	return tag.RowsAffected(), nil
}

// Snapshot reads all workers, stale ones included, sorted by id.
func (s *Store) Snapshot(ctx context.Context) (Snapshot, error) {
	var snap Snapshot
	var err error
	round := s.watch.Begin()
	snap.Workers, err = pg.Collect(ctx, s.db, s.sql.Snapshot, nil, func(row pgx.CollectableRow) (Worker, error) {
		var w Worker
		var c condition.Condition
		var since *time.Time
		var ttl *time.Duration
		err := row.Scan(&w.ID, &w.Hostname, &w.PID, &w.Version, &w.State,
			&w.StartedAt, &w.HeartbeatUntil, &ttl, &w.DrainRequestedAt, &w.Shape, &w.Canary, &c.Reason, &c.Detail, &since, &snap.At)
		w.Left = w.HeartbeatUntil.Sub(snap.At)
		if since != nil {
			c.Since, w.Condition = *since, &c
		}
		if ttl != nil && w.Left > *ttl+pg.Steady {
			w.Ahead = true
			if round.Same(w.ID, w.HeartbeatUntil) >= *ttl {
				w.Left = 0
			}
		}
		return w, err
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of workers: %w", err)
	}
	round.End()
	return snap, nil
}
