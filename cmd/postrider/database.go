package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

// databaseFlags say where the outbox is.
type databaseFlags struct {
	DatabaseURL string `help:"PostgreSQL URL or DSN; without it the PG* variables count." placeholder:"URL" env:"POSTRIDER_DATABASE_URL,DATABASE_URL"`
	Schema      string `help:"Schema of the outbox's tables." default:"public"`

	// readOnly lets the server refuse every write of these sessions.
	readOnly bool
}

func (f databaseFlags) validate() error {
	if err := pg.CheckSchema(f.Schema); err != nil {
		return fmt.Errorf("%w: --schema: %w", errRefused, err)
	}
	if f.DatabaseURL != "" {
		_, err := f.config()
		return err
	}
	for _, name := range []string{"PGHOST", "PGSERVICE", "PGDATABASE", "PGHOSTADDR", "PGUSER", "PGPORT"} {
		if os.Getenv(name) != "" {
			return nil
		}
	}
	return fmt.Errorf("%w: no database: set --database-url, DATABASE_URL or the PG* variables", errRefused)
}

// config is what all pools begin with.
func (f databaseFlags) config() (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(f.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w: --database-url cannot be read: %s", errRefused, redact(err.Error()))
	}
	return cfg, nil
}

// pool opens a pool of at most max connections and makes sure that the database can be reached. The name shows in pg_stat_activity.
func (f databaseFlags) pool(ctx context.Context, name string, maxConns int32) (*pgxpool.Pool, error) {
	cfg, err := f.config()
	if err != nil {
		return nil, err
	}
	pool, err := pg.Connections{Name: name, Most: maxConns, ReadOnly: f.readOnly}.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("--database-url: %s", redact(err.Error()))
	}
	return pool, nil
}
