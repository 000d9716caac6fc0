package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/postrider/postrider/internal/pg"
)

// open returns a handle whose every connection resolves unqualified names in pg_catalog and nowhere else: a migration runs with an owner's
// rights, and a role that may create in a schema of the path decides the meaning of names.
func (m *Migrator) open() (*sql.DB, error) {
	if m.cfg.DatabaseURL == "" {
		return nil, fmt.Errorf("%w: DatabaseURL must be set", ErrConfig)
	}
	cfg, err := pgx.ParseConfig(m.cfg.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w: DatabaseURL: %w", ErrConfig, err)
	}
	cfg.RuntimeParams["client_encoding"], cfg.RuntimeParams[pg.Backslashes] = pg.Encoding, "on"
	return stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `SET search_path = pg_catalog, pg_temp`); err != nil {
			return fmt.Errorf("set search_path: %w", err)
		}
		var number int
		var version, encoding string
		err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('server_encoding')`).
			Scan(&number, &version, &encoding)
		if err != nil {
			return fmt.Errorf("read server version: %w", err)
		}
		if err := checkServerVersion(number, version); err != nil {
			return err
		}
		if encoding == "SQL_ASCII" {
			return ErrEncoding
		}
		// The version table's times have no zone, and a migration takes as long as the tables are large.
		if _, err = conn.Exec(ctx, `SET TIME ZONE 'UTC'; SET statement_timeout = 0; SELECT set_config('transaction_timeout', '0', false) WHERE current_setting('transaction_timeout', true) IS NOT NULL`); err != nil {
			return fmt.Errorf("set time zone and limits: %w", err)
		}
		return nil
	})), nil
}

// ErrEncoding is returned for a database whose texts have no known meaning.
var ErrEncoding = errors.New("the database's encoding is SQL_ASCII, which keeps bytes of any meaning as text: " +
	"use a database with another one (CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0)")

func checkServerVersion(number int, version string) error {
	if number < 140000 {
		return fmt.Errorf("%w: the server is %s", ErrServerVersion, version)
	}
	return nil
}

func (m *Migrator) quoted() string { return pgx.Identifier{m.cfg.Schema}.Sanitize() }

// locker makes concurrent migrations of one schema wait for each other. Unlike goose's own session locker it waits in the database instead
// of polling, so that a second process continues the moment the first is done.
type locker struct{ key int64 }

func newLocker(schema string) locker {
	h := fnv.New64a()
	_, _ = h.Write([]byte("postrider migrate " + schema)) // a hash never fails
	return locker{key: int64(h.Sum64())}
}

func (l locker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, l.key); err != nil {
		return fmt.Errorf("take migration lock: %w", err)
	}
	return nil
}

func (l locker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, l.key); err != nil {
		return fmt.Errorf("release migration lock: %w", err)
	}
	return nil
}

// locked runs do on one connection under the migration lock.
func (m *Migrator) locked(ctx context.Context, db *sql.DB, do func(conn *sql.Conn) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := m.lock.SessionLock(ctx, conn); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.lock.SessionUnlock(context.WithoutCancel(ctx), conn)) }()
	return do(conn)
}
