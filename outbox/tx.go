package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Tx is a transaction of pgx: a pgx.Tx, or a *pgx.Conn after BEGIN.
type Tx interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// SQLTx is a transaction of database/sql: a *sql.Tx, a *sql.Conn after BEGIN, or a library's wrapper that hands the statement on as it is.
type SQLTx interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// ErrNoTransaction means that a pool or an idle connection was given where a transaction belongs.
var ErrNoTransaction = errors.New("not in a transaction")

// outside refuses a tx that shows, without a round trip, that it is in no transaction.
func outside(tx any) error {
	const idle = 'I'
	alone := false
	switch tx := tx.(type) {
	case *pgxpool.Pool:
		alone = true
	case *pgx.Conn:
		alone = tx.PgConn().TxStatus() == idle
	case *pgxpool.Conn:
		alone = tx.Conn().PgConn().TxStatus() == idle
	case interface{ Stats() sql.DBStats }: // *sql.DB, and its embedders
		alone = true
	}
	if alone {
		return fmt.Errorf("%w: a %T would commit the events at once; begin a transaction, and append in that", ErrNoTransaction, tx)
	}
	return nil
}
