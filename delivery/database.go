package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/internal/pg"
)

// functions are those of the server on which leases and durability rest.
var functions = []string{
	"pg_control_system", "pg_walfile_name", "pg_current_wal_insert_lsn", "pg_current_wal_flush_lsn", "pg_logical_emit_message",
}

// Errors of CheckDatabase.
var (
	ErrReadOnly  = errors.New("the database is read-only")
	ErrFunctions = errors.New("functions of the database are missing")
)

// CheckDatabase tells whether the server can be worked with by this session's role: it
// may be written to, and the functions are there that leases and durability rest on. Its
// errors name what is missing and the cure, and wrap ErrReadOnly or ErrFunctions. It is
// the one place that asks what a server can do.
func CheckDatabase(ctx context.Context, db pg.DB) error {
	ask, err := loadChecks("public")
	if err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	var standby, readOnly bool
	var role string
	var denied, absent []string
	if err := ask.Database.Row(ctx, db, pg.Args{"functions": functions}).Scan(&standby, &readOnly, &role, &denied, &absent); err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	switch {
	case standby:
		return &condition.Error{Reason: condition.DatabaseReadOnly, Err: fmt.Errorf(
			"%w: the server is a standby; to mend it: connect to the primary (target_session_attrs=read-write)", ErrReadOnly)}
	case readOnly:
		return &condition.Error{Reason: condition.DatabaseReadOnly, Err: fmt.Errorf(
			"%w: default_transaction_read_only is on; to mend it: turn it off for the database, the role %s or the server", ErrReadOnly, role)}
	case len(absent) > 0:
		return &condition.Error{Reason: condition.DatabaseFailed, Err: fmt.Errorf(
			"%w: this server has no %s, on which leases and durability rest; to mend it: use PostgreSQL 14 or newer itself", ErrFunctions, strings.Join(absent, ", "))}
	case len(denied) > 0:
		return &condition.Error{Reason: condition.DatabaseRights, Err: fmt.Errorf(
			"%w: %s may not execute %s; to mend it: as a superuser, GRANT EXECUTE ON FUNCTION %s TO %s",
			ErrFunctions, role, strings.Join(denied, ", "), strings.Join(denied, ", "), pgx.Identifier{role}.Sanitize())}
	}
	return nil
}

// DatabaseServer is what people look at first when something is wrong. It judges nothing.
type DatabaseServer struct {
	Number  int    // of the version, as 160004
	Version string // as PostgreSQL writes it
	Standby bool
	// SearchPath, Fsync and SynchronousCommit are as this session has them.
	SearchPath, Fsync, SynchronousCommit string
}

// ReadDatabaseServer reads that, of servers of any version.
func ReadDatabaseServer(ctx context.Context, db pg.DB) (s DatabaseServer, err error) {
	ask, err := loadChecks("public")
	if err != nil {
		return s, err
	}
	err = ask.Server.Row(ctx, db, nil).Scan(&s.Number, &s.Version, &s.Standby, &s.SearchPath, &s.Fsync, &s.SynchronousCommit)
	return s, err
}

// Regressed tells when a failover or a restore was last found to have lost published events, and whether that is less than a
// day ago; nil: never.
func Regressed(ctx context.Context, db pg.DB, schema string) (at *time.Time, lately bool, err error) {
	ask, err := loadChecks(schema)
	if err != nil {
		return nil, false, err
	}
	err = ask.Regressed.Row(ctx, db, nil).Scan(&at, &lately)
	return at, lately, err
}

// ReadOnly tells whether the whole database refuses writes.
func (s *Store) ReadOnly(ctx context.Context) (readOnly bool, err error) {
	if err := s.sql.ReadOnly.Row(ctx, s.db, nil).Scan(&readOnly); err != nil {
		return false, fmt.Errorf("look whether the database is read-only: %w", err)
	}
	return readOnly, nil
}
