package gaps

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/sqlfile"
	"github.com/postrider/postrider/partition"
)

//go:embed sql/*.sql
var embedded embed.FS

// DB is what is needed of a pgx pool.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Store looks for gaps and repairs them.
type Store struct {
	outbox *maintenance.Outbox
	text   sqlfile.Set
}

// New returns a store on the tables of that schema and looks at the events
// relation's columns: a missing relation or column is delivery.ErrEventsRelation.
func New(ctx context.Context, db DB, schema string, events delivery.Relation) (*Store, error) {
	set, err := sqlfile.Load(embedded, "sql", schema)
	if err != nil {
		return nil, fmt.Errorf("gaps: %w", err)
	}
	outbox, err := maintenance.New(db, schema, "lock_timeout", maintenance.LockPatience.String())
	if err != nil {
		return nil, fmt.Errorf("gaps: %w", err)
	}
	of, err := events.Columns(ctx, db, schema, "sequence", "event_id", "stream_id", "stream_version", "recorded_at")
	if err != nil {
		return nil, err
	}
	columns := strings.NewReplacer("{events}", of.Relation, "{topic}", of.OrNull("topic", "text"),
		"{routing_key}", of.OrNull("routing_key", "text"), "{audit_only}", of.AuditOnly())
	for name, text := range set {
		set[name] = columns.Replace(text)
	}
	return &Store{outbox: outbox, text: set}, nil
}

// look reads rows of one statement in a snapshot of its own; each is scanned into
// the targets before row is called.
func (s *Store) look(ctx context.Context, name string, args, into []any, row func() error) error {
	return s.outbox.Read(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, s.text[name], args...)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, into, row)
		return err
	})
}

// bounds are what a look can be about.
type bounds struct {
	since      *time.Time // the history tells everything since then; nil: it is empty
	complete   bool       // nothing was ever dropped from the history
	highest    int64
	newest     int64     // the last batch of the history
	recent     time.Time // history rows that appear later are younger
	count      partition.Count
	partitions []partition.ID
}

func (s *Store) bounds(ctx context.Context, o Options) (b bounds, err error) {
	err = s.outbox.Read(ctx, func(tx pgx.Tx) error {
		var count int
		if err := tx.QueryRow(ctx, s.text["bounds"]).Scan(&b.since, &b.highest, &b.newest, &b.recent, &count, &b.complete); err != nil {
			return err
		}
		b.count = partition.Count(count)
		b.partitions, err = s.outbox.Partitions(ctx, tx)
		return err
	})
	if o.To > 0 {
		b.highest = min(b.highest, o.To)
	}
	return b, err
}

// low is the position before the first event that counts.
func (o Options) low() int64 { return max(0, o.From-1) }

// orNull makes a parameter that is NULL where nothing was asked for.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
