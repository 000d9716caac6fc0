package maintenance

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/sqlfile"
	"github.com/postrider/postrider/partition"
)

//go:embed sql/*.sql
var embedded embed.FS

// LockPatience is how long a change waits for what somebody else has locked.
const LockPatience = 5 * time.Second

// DB is a pgx connection or pool.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Outbox is the tables of one schema. It may be used by several goroutines if its DB
// may.
type Outbox struct {
	db                                          DB
	reading, writing                            string // the settings of a transaction
	lockTable, lock, partitions, promote, audit string
}

// New returns the outbox in that schema. extra are settings of each transaction, a
// name and a value in turns, beyond the usual ones.
func New(db DB, schema string, extra ...string) (*Outbox, error) {
	set, err := sqlfile.Load(embedded, "sql", schema)
	if err != nil {
		return nil, err
	}
	settings := append([]string{"plan_cache_mode", "force_custom_plan", "jit", "off", "enable_seqscan", "off", "enable_bitmapscan", "off"}, extra...)
	var calls []string
	for i := 0; i < len(settings); i += 2 {
		calls = append(calls, fmt.Sprintf("set_config('%s', '%s', true)", settings[i], settings[i+1]))
	}
	reading := "SELECT " + strings.Join(calls, ", ")
	return &Outbox{
		db: db, reading: reading, writing: fmt.Sprintf("%s, set_config('lock_timeout', '%s', true)", reading, LockPatience),
		lockTable: set["lock_table"], lock: set["lock"], partitions: set["partitions"], promote: set["promote"], audit: set["audit"],
	}, nil
}

// Read gives fn one snapshot of the database.
func (o *Outbox) Read(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, o.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, o.reading); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Write gives fn a transaction whose every statement sees what was committed before
// it.
func (o *Outbox) Write(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, o.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, o.writing); err != nil {
			return err
		}
		return fn(tx)
	})
}

// LockTable keeps the number of partitions as it is. It comes before LockPartitions.
func (o *Outbox) LockTable(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, o.lockTable); err != nil {
		return fmt.Errorf("lock the outbox: %w", err)
	}
	return nil
}

// LockPartitions locks the lease rows of those partitions.
func (o *Outbox) LockPartitions(ctx context.Context, tx pgx.Tx, ids []partition.ID) error {
	if _, err := tx.Exec(ctx, o.lock, ids); err != nil {
		return fmt.Errorf("lock partitions: %w", err)
	}
	return nil
}

// Partitions lists the partitions that there are.
func (o *Outbox) Partitions(ctx context.Context, tx pgx.Tx) (ids []partition.ID, err error) {
	err = tx.QueryRow(ctx, o.partitions).Scan(&ids)
	return ids, err
}

// Promote has the first parked row of each stream blocked by nothing any more. A
// stream is named by its partition and its key.
func (o *Outbox) Promote(ctx context.Context, tx pgx.Tx, ids []partition.ID, streams []string) error {
	if _, err := tx.Exec(ctx, o.promote, ids, streams); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return nil
}

// Record writes one row of the audit. target and details are encoded as JSON.
func (o *Outbox) Record(ctx context.Context, tx pgx.Tx, actor, action string, target any, reason string, details any) error {
	if _, err := tx.Exec(ctx, o.audit, actor, action, target, reason, details); err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	return nil
}

// Busy tells whether a change waited for a lock in vain.
func Busy(err error) bool {
	const lockNotAvailable = "55P03"
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == lockNotAvailable
}
