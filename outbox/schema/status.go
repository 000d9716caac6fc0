package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Status lists every migration that this binary knows, oldest first, and any later one that the database has. It writes nothing.
func (m *Migrator) Status(ctx context.Context) (steps []Migration, err error) {
	db, err := m.open()
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	defer func() { err = wrap("migration status", errors.Join(err, db.Close())) }()
	steps, err = files()
	if err != nil {
		return nil, err
	}
	applied, err := m.applied(ctx, db)
	if err != nil {
		return nil, err
	}
	for i := range steps {
		at, ok := applied[steps[i].Version]
		steps[i].Applied, steps[i].AppliedAt = ok, at
	}
	latest := steps[len(steps)-1].Version
	for version, at := range applied {
		if version > latest {
			steps = append(steps, Migration{Version: version, Name: "(unknown to this binary)", Applied: true, AppliedAt: at})
		}
	}
	return steps, nil
}

func (m *Migrator) applied(ctx context.Context, db *sql.DB) (map[int64]time.Time, error) {
	var table sql.NullString
	name := pgx.Identifier{m.cfg.Schema, versionTable}.Sanitize()
	if err := db.QueryRowContext(ctx, `SELECT to_regclass($1)::text`, name).Scan(&table); err != nil {
		return nil, fmt.Errorf("look for %s: %w", name, err)
	}
	applied := map[int64]time.Time{}
	if !table.Valid {
		return applied, nil
	}
	rows, err := db.QueryContext(ctx, `SELECT version_id, tstamp::timestamptz FROM `+name+` WHERE is_applied AND version_id > 0`)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err below reports what matters
	for rows.Next() {
		var version int64
		var at time.Time
		if err := rows.Scan(&version, &at); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		applied[version] = at
	}
	return applied, rows.Err()
}
