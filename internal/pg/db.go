package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is a store's part of a pgx connection, pool or transaction.
type DB interface {
	Execer
	Querier
	RowQuerier
	Begin(ctx context.Context) (pgx.Tx, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Conn is a pgx connection or pool: a DB whose transactions may have options.
type Conn interface {
	DB
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// WithCure adds the cure where a server refuses writes, or a lock is not free: PostgreSQL names no setting then.
func WithCure(err error) error {
	cures := map[string]string{
		"42501": "grant the role what is named; where row-level security keeps rows from it: ALTER ROLE … BYPASSRLS, or disable it on the table",
		"25006": "connect to the primary, or turn default_transaction_read_only off for the database, the role or the server",
		"55P03": "another transaction holds it for longer than lock_timeout of the address, the role or the database: end that one " +
			"(pg_stat_activity shows it), or set a longer lock_timeout, and try again",
	}
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && cures[answer.Code] != "" {
		return fmt.Errorf("%w: %s", err, cures[answer.Code])
	}
	return err
}

// Refused reports whether the error's SQLSTATE begins with one of these.
func Refused(err error, states ...string) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.ContainsFunc(states, func(state string) bool { return strings.HasPrefix(answer.Code, state) })
}

// Hidden returns the error of a read of a table whose policies apply to the session: hidden rows would look missing.
func Hidden(active bool, table string) error {
	if !active {
		return nil
	}
	return fmt.Errorf("row-level security of %s may keep rows from this role: ALTER ROLE … BYPASSRLS, or disable it on the table", table)
}

// Execer is the part of DB that runs statements.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Querier is the part of DB that reads rows.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// RowQuerier is the part of DB that reads one row.
type RowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SQLQuerier reads rows through database/sql.
type SQLQuerier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Rows are rows of pgx, or of database/sql.
type Rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
	Close()
}

// QuerySQL is Query of a Querier, through database/sql.
func QuerySQL(ctx context.Context, db SQLQuerier, text string, args ...any) (Rows, error) {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return sqlRows{rows}, rows.Err()
}

type sqlRows struct{ *sql.Rows }

// Close loses no error that Err does not return.
func (r sqlRows) Close() { _ = r.Rows.Close() }
