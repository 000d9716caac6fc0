package maintenance

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

//go:embed sql/*.sql
var embedded embed.FS

// LockPatience bounds a change's wait for a lock of somebody else.
const LockPatience = 5 * time.Second

// IdlePatience bounds a change whose process was suspended amid it: the server ends it then.
const IdlePatience = 10 * time.Second

// Outbox is the tables of one schema. It may be used by several goroutines if its DB may.
type Outbox struct {
	db               pg.Conn
	reading, writing settings
	sql              queries
}

type queries struct{ Set, LockTable, LockPartitions, Partitions, Promote, Record pg.Query }

// settings are those of a transaction: names, and a value for each.
type settings struct{ names, values []string }

func (s settings) with(name, value string) settings {
	return settings{append(slices.Clone(s.names), name), append(slices.Clone(s.values), value)}
}

// New returns the outbox in that schema. extra are settings of each transaction, a name and a value in turns, beyond the usual ones.
func New(db pg.Conn, schema string, extra ...string) (*Outbox, error) {
	o := &Outbox{db: db}
	if err := pg.Fill(embedded, "sql/*.sql", "maintenance", schema, &o.sql); err != nil {
		return nil, err
	}
	usual := []string{"plan_cache_mode", "force_custom_plan", "jit", "off", "enable_seqscan", "off", "enable_bitmapscan", "off"}
	for pair := range slices.Chunk(append(usual, extra...), 2) {
		o.reading = o.reading.with(pair[0], pair[1])
	}
	o.writing = o.reading.with("lock_timeout", LockPatience.String()).with("idle_in_transaction_session_timeout", IdlePatience.String())
	return o, nil
}

// Read gives fn one snapshot of the database.
func (o *Outbox) Read(ctx context.Context, fn func(pgx.Tx) error) error {
	return o.begin(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, o.reading, fn)
}

// Write gives fn a transaction whose every statement sees what was committed before it.
func (o *Outbox) Write(ctx context.Context, fn func(pgx.Tx) error) error {
	return o.begin(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, o.writing, fn)
}

func (o *Outbox) begin(ctx context.Context, options pgx.TxOptions, s settings, fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, o.db, options, func(tx pgx.Tx) error {
		if _, err := o.sql.Set.Exec(ctx, tx, pg.Args{"names": s.names, "values": s.values}); err != nil {
			return err
		}
		return fn(tx)
	})
}

// LockTable keeps the number of partitions as it is. It comes before LockPartitions.
func (o *Outbox) LockTable(ctx context.Context, tx pgx.Tx) error {
	if _, err := o.sql.LockTable.Exec(ctx, tx, nil); err != nil {
		return fmt.Errorf("lock the outbox: %w", err)
	}
	return nil
}

// LockPartitions locks the lease rows of those partitions.
func (o *Outbox) LockPartitions(ctx context.Context, tx pgx.Tx, ids []partition.ID) error {
	if _, err := o.sql.LockPartitions.Exec(ctx, tx, pg.Args{"partitions": ids}); err != nil {
		return fmt.Errorf("lock partitions: %w", err)
	}
	return nil
}

// Partitions lists the present partitions.
func (o *Outbox) Partitions(ctx context.Context, tx pgx.Tx) (ids []partition.ID, err error) {
	err = o.sql.Partitions.Row(ctx, tx, nil).Scan(&ids)
	return ids, err
}

// Promote unblocks the first parked row of each stream. A stream is named by its partition and its key.
func (o *Outbox) Promote(ctx context.Context, tx pgx.Tx, ids []partition.ID, streams []string) error {
	if _, err := o.sql.Promote.Exec(ctx, tx, pg.Args{"partitions": ids, "streams": streams}); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return nil
}

// Record writes one row of the audit. target and details are encoded as JSON.
func (o *Outbox) Record(ctx context.Context, tx pgx.Tx, actor, action string, target any, reason string, details any) error {
	if _, err := o.sql.Record.Exec(ctx, tx, pg.Args{"actor": actor, "action": action, "target": target, "reason": reason, "details": details}); err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	return nil
}

// Busy reports whether a change waited for a lock in vain.
func Busy(err error) bool {
	return pg.Refused(err, "55P03") // lock_not_available
}

// Contended reports whether others were in the way, so that a repeated change may succeed.
func Contended(err error) bool {
	return Busy(err) || pg.Refused(err, "40P01") // deadlock_detected
}
