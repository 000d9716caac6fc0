package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/sqlfile"
)

// databaseFlags say where the outbox is.
type databaseFlags struct {
	DatabaseURL string `help:"PostgreSQL URL or DSN; without it the PG* variables count." placeholder:"URL" env:"POSTRIDER_DATABASE_URL,DATABASE_URL"`
	Schema      string `help:"Schema of the outbox's tables." default:"public"`
}

func (f databaseFlags) validate() error {
	if err := sqlfile.CheckSchema(f.Schema); err != nil {
		return fmt.Errorf("%w: --schema: %w", errRefused, err)
	}
	if f.DatabaseURL != "" {
		if _, err := pgxpool.ParseConfig(f.DatabaseURL); err != nil {
			return fmt.Errorf("%w: --database-url cannot be read: %s", errRefused, redact(err.Error()))
		}
		return nil
	}
	for _, name := range []string{"PGHOST", "PGSERVICE", "PGDATABASE", "PGHOSTADDR", "PGUSER", "PGPORT"} {
		if os.Getenv(name) != "" {
			return nil
		}
	}
	return fmt.Errorf("%w: no database: set --database-url, DATABASE_URL or the PG* variables", errRefused)
}

// connectTimeout bounds the first contact with the database.
const connectTimeout = 10 * time.Second

// pool opens a pool of at most max connections and makes sure that the database
// can be reached. The name shows in pg_stat_activity.
func (f databaseFlags) pool(ctx context.Context, name string, maxConns int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(f.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w: --database-url cannot be read: %s", errRefused, redact(err.Error()))
	}
	cfg.MaxConns = maxConns
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL (--database-url): %s", redact(err.Error()))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, errors.New("no answer in time"))
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to PostgreSQL at %s:%d (--database-url): %s", cfg.ConnConfig.Host, cfg.ConnConfig.Port, redact(err.Error()))
	}
	return pool, nil
}
