package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox/schema"
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

// checkSchema makes sure that the tables are there and fit, and where a number of partitions is asked for, that it is the stored one.
func checkSchema(ctx context.Context, pool *pgxpool.Pool, name string, partitions int) (schema.Info, error) {
	m, err := schema.New(schema.Config{Schema: name, Partitions: partitions})
	if err != nil {
		return schema.Info{}, fmt.Errorf("%w: %w", errRefused, err)
	}
	ctx, cancel := context.WithTimeout(ctx, pg.ConnectTimeout)
	defer cancel()
	info, err := m.Check(ctx, pool)
	return info, named(err)
}

// outbox opens a pool, and reads what is stored about the outbox, which must be one that this program knows.
func (f databaseFlags) outbox(ctx context.Context, name string, maxConns int32) (*pgxpool.Pool, schema.Info, error) {
	if err := f.validate(); err != nil {
		return nil, schema.Info{}, err
	}
	pool, err := f.pool(ctx, name, maxConns)
	if err != nil {
		return nil, schema.Info{}, err
	}
	info, err := checkSchema(ctx, pool, f.Schema, 0)
	if err != nil {
		pool.Close()
	}
	return pool, info, err
}

// eventsOf is where an outbox's events are: the database says so, to everybody the same.
func eventsOf(info schema.Info) (delivery.Relation, error) {
	return delivery.ParseRelation(info.Events)
}

// controlOf is where an outbox's control messages go: the database says that, too.
func controlOf(info schema.Info) natspub.Control {
	return natspub.Control{Outbox: info.OutboxID, Prefix: info.ControlPrefix}
}

// largestPayload is what is read of an event: as much as could be appended. Whoever lowers that later means what is appended then.
func largestPayload(info schema.Info) int64 {
	return max(delivery.DefaultMaxPayload, info.MaxPayloadBytes)
}

// named adds to an error of the schema which setting it is about.
func named(err error) error {
	switch {
	case errors.Is(err, schema.ErrPartitionMismatch):
		return fmt.Errorf("%w: --partitions: %w", errRefused, err)
	case errors.Is(err, schema.ErrEvents):
		return fmt.Errorf("%w: --events-relation: %w", errRefused, err)
	case errors.Is(err, schema.ErrCreators):
		return fmt.Errorf("%w: --schema: %w", errRefused, err)
	case errors.Is(err, schema.ErrControl):
		return fmt.Errorf("%w: --control-prefix: %w", errRefused, err)
	case err == nil, errors.Is(err, schema.ErrNotMigrated), errors.Is(err, schema.ErrOutdated),
		errors.Is(err, schema.ErrNewer), errors.Is(err, schema.ErrUnpublished):
		return err
	default:
		return fmt.Errorf("database (--database-url): %w", err)
	}
}
