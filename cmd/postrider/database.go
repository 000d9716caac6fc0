package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/ops"
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
	if !f.given() {
		return fmt.Errorf("%w: no database: set --database-url, DATABASE_URL or the PG* variables", errRefused)
	}
	return nil
}

// given reports whether anything says where the database is.
func (f databaseFlags) given() bool {
	return f.DatabaseURL != "" || slices.ContainsFunc([]string{"PGHOST", "PGSERVICE", "PGDATABASE", "PGHOSTADDR", "PGUSER", "PGPORT"}, func(name string) bool {
		return os.Getenv(name) != ""
	})
}

// config is what all pools begin with.
func (f databaseFlags) config() (*pgxpool.Config, error) {
	cfg, err := pg.ParseConfig(f.DatabaseURL)
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

// checkSchema makes sure that the tables are there and fit, and that the stored settings are those that the configuration asks for.
func checkSchema(ctx context.Context, pool *pgxpool.Pool, asked schema.Config) (info outboxInfo, err error) {
	m, err := schema.New(asked)
	if err != nil {
		return info, fmt.Errorf("%w: %w", errRefused, err)
	}
	ctx, cancel := context.WithTimeout(ctx, pg.ConnectTimeout)
	defer cancel()
	if info.Info, err = m.Check(ctx, pool); err != nil {
		return info, named(err)
	}
	info.events, err = delivery.ParseRelation(info.Events)
	return info, err
}

// outbox opens a pool, and reads what is stored about the outbox, which must be one that this program knows.
func (f databaseFlags) outbox(ctx context.Context, name string, maxConns int32) (pool *pgxpool.Pool, info outboxInfo, err error) {
	if err := f.validate(); err != nil {
		return nil, info, err
	}
	if pool, err = f.pool(ctx, name, maxConns); err != nil {
		return nil, info, err
	}
	if info, err = checkSchema(ctx, pool, schema.Config{Schema: f.Schema}); err != nil {
		pool.Close()
	}
	return pool, info, err
}

// outboxInfo holds the stored settings of an outbox, which everybody shares.
type outboxInfo struct {
	schema.Info
	events delivery.Relation
}

// control names the subjects of the outbox's control messages.
func (s outboxInfo) control() natspub.Control {
	return natspub.Control{Outbox: s.OutboxID, Prefix: s.ControlPrefix}
}

// present is the database's clock, of which the times of its rows are.
func (s outboxInfo) present(ctx context.Context, pool *pgxpool.Pool, schema string) (now time.Time, err error) {
	op, err := ops.New(ctx, pool, schema, s.events)
	if err == nil {
		now, err = op.Now(ctx)
	}
	return now, err
}

// largestPayload bounds the payloads that are read: as much as could be appended. Whoever lowers that later means what is appended then.
func (s outboxInfo) largestPayload() int64 { return max(delivery.DefaultMaxPayload, s.MaxPayloadBytes) }

// named adds to an error of the schema which setting it is about.
func named(err error) error {
	switch {
	case errors.Is(err, schema.ErrPartitionMismatch):
		return fmt.Errorf("%w: --partitions: %w", errRefused, err)
	case errors.Is(err, schema.ErrStreamMismatch):
		return fmt.Errorf("%w: %w", errRefused, err)
	case errors.Is(err, schema.ErrLiving):
		return fmt.Errorf("%w: --events-relation, --stream, --subject: %w", errRefused, err)
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
