package pgstore

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

// Errors of CheckDatabase.
var (
	ErrReadOnly  = errors.New("the database is read-only")
	ErrFunctions = errors.New("functions of the database are missing")
)

// CheckDatabase checks that this session's role can work with the server: it
// may be written to, and gives what a worker found that it gives when it began (pg.Needs).
// Its errors name what is missing and the cure, and wrap ErrReadOnly or ErrFunctions.
func CheckDatabase(ctx context.Context, db pg.DB, functions ...string) error {
	ask, err := loadChecks("public")
	if err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	var standby, readOnly bool
	var role string
	var denied, absent []string
	if err := ask.Database.Row(ctx, db, pg.Args{"functions": append([]string{}, functions...)}).Scan(&standby, &readOnly, &role, &denied, &absent); err != nil {
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
			"%w: this server has no %s any more; to mend it: start the workers again, who then do without", ErrFunctions, strings.Join(absent, ", "))}
	case len(denied) > 0:
		return &condition.Error{Reason: condition.DatabaseRights, Err: fmt.Errorf(
			"%w: %s may not execute %s any more; to mend it: start the workers again, who then do without, or, as a superuser, GRANT EXECUTE ON FUNCTION %s TO %s",
			ErrFunctions, role, strings.Join(denied, ", "), strings.Join(denied, ", "), pgx.Identifier{role}.Sanitize())}
	}
	return nil
}

// DatabaseServer has the server's facts that people look at first when something is wrong. It judges nothing.
type DatabaseServer struct {
	Number  int    // of the version, as 160004
	Version string // as PostgreSQL writes it
	Standby bool
	// SearchPath, Fsync and SynchronousCommit are as this session has them.
	SearchPath, Fsync, SynchronousCommit string
	// Encoding is the database's, ClientEncoding this session's.
	Encoding, ClientEncoding string
}

// ReadDatabaseServer reads that, of servers of any version.
func ReadDatabaseServer(ctx context.Context, db pg.DB) (s DatabaseServer, err error) {
	ask, err := loadChecks("public")
	if err != nil {
		return s, err
	}
	err = ask.Server.Row(ctx, db, nil).Scan(&s.Number, &s.Version, &s.Standby, &s.SearchPath, &s.Fsync, &s.SynchronousCommit, &s.Encoding, &s.ClientEncoding)
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

// TableRoom is the size of a table.
type TableRoom struct {
	Name string
	// Churns: its rows come and go, so that it grows while vacuum does not come by.
	Churns bool
	// Bytes are with indexes; Live and Dead rows are estimates.
	Bytes, Live, Dead int64
	// NoVacuum: autovacuum passes it by.
	NoVacuum bool
}

// Room reads what the tables of an outbox take, its events among them, the largest first.
func Room(ctx context.Context, db pg.DB, schema string, events Relation) ([]TableRoom, error) {
	ask, err := loadChecks(schema)
	if err != nil {
		return nil, err
	}
	tables, err := pg.Collect(ctx, db, ask.Room, pg.Args{"relation": events.within(schema)}, pgx.RowToStructByPos[TableRoom])
	if err != nil {
		return nil, fmt.Errorf("look what the tables take: %w", err)
	}
	return tables, nil
}

// ReadOnly reports whether the whole database refuses writes.
func (s *Store) ReadOnly(ctx context.Context) (readOnly bool, err error) {
	if err := s.sql.ReadOnly.Row(ctx, s.db, nil).Scan(&readOnly); err != nil {
		return false, fmt.Errorf("look whether the database is read-only: %w", err)
	}
	return readOnly, nil
}

// ErrHorizonHidden is returned to a role without pg_read_all_stats, which does
// not see what other roles' sessions hold.
var ErrHorizonHidden = errors.New("the role lacks pg_read_all_stats")

// Horizon describes the oldest snapshot, which holds vacuum back. The outbox's tables turn over all their
// rows, so that they grow while it stands still.
type Horizon struct {
	// Transactions counts the transactions since the oldest one began that must
	// still see its rows.
	Transactions int64
	// Age is the time for which the oldest open transaction, prepared ones included, has
	// been open; 0 when only standbys and replication slots hold back.
	Age time.Duration
}

// Horizon reads what holds vacuum back in this database. The error wraps
// ErrHorizonHidden when the role may not know.
func (s *Store) Horizon(ctx context.Context) (h Horizon, err error) {
	err = s.sql.Horizon.Row(ctx, s.db, nil).Scan(&h.Transactions, &h.Age)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrHorizonHidden
	}
	if err != nil {
		return Horizon{}, fmt.Errorf("read the horizon: %w", err)
	}
	return h, nil
}
