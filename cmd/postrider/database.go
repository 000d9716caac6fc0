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
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox/schema"
)

// databaseFlags name the outbox.
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

// given reports whether a flag or variable names the database.
func (f databaseFlags) given() bool {
	return f.DatabaseURL != "" || slices.ContainsFunc([]string{"PGHOST", "PGSERVICE", "PGDATABASE", "PGHOSTADDR", "PGUSER", "PGPORT"}, func(name string) bool {
		return os.Getenv(name) != ""
	})
}

// config returns the configuration that all pools share.
func (f databaseFlags) config() (*pgxpool.Config, error) {
	cfg, err := pg.ParseConfig(f.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w: --database-url cannot be read: %s", errRefused, redact(err.Error()))
	}
	return cfg, nil
}

// pool opens a pool of at most maxConns connections and checks that the database can be reached. pg_stat_activity shows the name.
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

// checkSchema checks that the tables exist and fit, and that the stored settings equal the asked ones.
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
	info.events, err = pgstore.ParseRelation(info.Events)
	return info, err
}

// outbox opens a pool and reads the stored settings of the outbox; it refuses an unknown schema version.
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

// outboxInfo holds the stored settings of an outbox, which all processes share.
type outboxInfo struct {
	schema.Info
	events pgstore.Relation
}

// control returns the subjects of the outbox's records.
func (s outboxInfo) control() streams.Control {
	return streams.Control{Outbox: s.OutboxID, Prefix: s.ControlPrefix}
}

// present reads the database's clock, which dates its rows.
func (s outboxInfo) present(ctx context.Context, pool *pgxpool.Pool, schema string) (now time.Time, err error) {
	op, err := ops.New(ctx, pool, schema, s.events)
	if err == nil {
		now, err = op.Now(ctx)
	}
	return now, err
}

// largestPayload bounds the payloads that are read: the limit of appends. Lowering that later counts for later events alone.
func (s outboxInfo) largestPayload() int64 { return max(delivery.DefaultMaxPayload, s.MaxPayloadBytes) }

// named adds the setting's name to an error of the schema.
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
