package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

// databaseFlags say where the outbox is.
type databaseFlags struct {
	DatabaseURL string `help:"PostgreSQL URL or DSN; without it the PG* variables count." placeholder:"URL" env:"POSTRIDER_DATABASE_URL,DATABASE_URL"`
	Schema      string `help:"Schema of the outbox's tables." default:"public"`

	// deadPeer is about how long the server keeps a session whose client went dark; 0 leaves it to the operating systems.
	deadPeer time.Duration
	// readOnly lets the server refuse every write of these sessions.
	readOnly bool
}

func (f databaseFlags) validate() error {
	if err := pg.CheckSchema(f.Schema); err != nil {
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

// pool opens a pool of at most max connections and makes sure that the database can be reached. The name shows in pg_stat_activity.
func (f databaseFlags) pool(ctx context.Context, name string, maxConns int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(f.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w: --database-url cannot be read: %s", errRefused, redact(err.Error()))
	}
	cfg.MaxConns = maxConns
	if f.deadPeer > 0 { // a worker's sessions live as long as the worker
		cfg.MinConns = maxConns
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	cfg.ConnConfig.RuntimeParams["search_path"] = fixedPath
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	switch {
	case f.readOnly: // a statement, since poolers refuse it as a startup parameter
		cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SET default_transaction_read_only = on`)
			return err
		}
	case f.deadPeer > 0:
		cfg.AfterConnect = f.keepAlive
	}
	pool, err := reach(ctx, cfg)
	if refusesPath(err) {
		cfg = cfg.Copy()
		delete(cfg.ConnConfig.RuntimeParams, "search_path")
		pool, err = reach(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL at %s:%d (--database-url): %s", cfg.ConnConfig.Host, cfg.ConnConfig.Port, redact(err.Error()))
	}
	return pool, nil
}

// fixedPath keeps those who may create in a schema of the role's own path from saying what the program's statements mean: PostgreSQL
// prefers a function that matches exactly to a polymorphic one of pg_catalog.
const fixedPath = "pg_catalog, pg_temp"

// reach opens a pool and waits for its first connection.
func reach(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, errors.New("no answer in time"))
	defer cancel()
	// A pooler that takes no transactions answers every single statement well.
	err = pgx.BeginFunc(ctx, pool, func(pgx.Tx) error { return nil })
	if err == nil {
		return pool, nil
	}
	pool.Close()
	if strings.Contains(err.Error(), "statement pooling mode") {
		return nil, fmt.Errorf("%w: the pooler's pool_mode is statement, which takes no transactions: it must be transaction or session", err)
	}
	return nil, err
}

// refusesPath tells whether a pooler takes no search_path from its clients. A statement instead of the parameter would stay with a session
// that others use next; the path is then up to the role's settings, of which doctor speaks.
func refusesPath(err error) bool {
	const protocolViolation = "08P01"
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == protocolViolation && strings.Contains(answer.Message, "search_path")
}

// keepAlive makes the server look after its client: three probes, so that a session without one ends after about deadPeer. Connections
// without TCP ignore it. It is set by a statement, since poolers refuse it as a startup parameter.
func (f databaseFlags) keepAlive(ctx context.Context, conn *pgx.Conn) error {
	step := strconv.Itoa(int(max(1, (f.deadPeer/4).Round(time.Second)/time.Second)))
	_, err := conn.Exec(ctx, `SELECT set_config('tcp_keepalives_idle', $1, false), set_config('tcp_keepalives_interval', $1, false),
		set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', $2, false)`,
		step, strconv.FormatInt(f.deadPeer.Milliseconds(), 10))
	return err
}
