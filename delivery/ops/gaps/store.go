package gaps

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

//go:embed sql/*.sql
var embedded embed.FS

// Store looks for gaps and repairs them.
type Store struct {
	outbox *maintenance.Outbox
	again  func(context.Context) (*Store, error)
	sql    queries
}

type queries struct {
	Bounds, Events, Following, Suspects, Pointers, Versions, Unknown, Enqueue pg.Query
	HistoryEnd, History, Deliveries                                           pg.Query
}

// New returns a store on the tables of that schema and looks at the events
// relation's columns: a missing relation or column is pgstore.ErrEventsRelation.
func New(ctx context.Context, db pg.Conn, schema string, events pgstore.Relation) (*Store, error) {
	outbox, err := maintenance.New(db, schema, "lock_timeout", maintenance.LockPatience.String(), "statement_timeout", "0", "transaction_timeout", "0")
	if err != nil {
		return nil, fmt.Errorf("gaps: %w", err)
	}
	of, err := events.Columns(ctx, db, schema, "sequence", "event_id", "stream_id", "stream_version", "recorded_at")
	if err != nil {
		return nil, err
	}
	s := &Store{outbox: outbox, again: func(ctx context.Context) (*Store, error) { return New(ctx, db, schema, events) }}
	if err := pg.Fill(embedded, "sql/*.sql", "gaps", schema, &s.sql, "{events}", of.Relation, "{topic}", of.OrNull("topic", "text"),
		"{routing_key}", of.OrNull("routing_key", "text"), "{audit_only}", of.AuditOnly()); err != nil {
		return nil, fmt.Errorf("gaps: %w", err)
	}
	return s, nil
}

// look reads rows of one statement in a snapshot of its own; each is scanned into the targets before row is called.
func (s *Store) look(ctx context.Context, query pg.Query, args pg.Args, into []any, row func() error) error {
	return s.outbox.Read(ctx, func(tx pgx.Tx) error {
		rows, err := query.Rows(ctx, tx, args)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, into, row)
		return err
	})
}

// bounds delimit the search for gaps.
type bounds struct {
	since      *time.Time // the history is complete since then; nil: it is empty
	complete   bool       // nothing was ever dropped from the history
	highest    int64
	from       int64     // parts below it were dropped
	newest     int64     // the last batch of the history
	recent     time.Time // history rows that appear later are younger
	count      partition.Count
	partitions []partition.ID
}

func (s *Store) bounds(ctx context.Context, o Options) (b bounds, err error) {
	err = s.outbox.Read(ctx, func(tx pgx.Tx) error {
		var count int
		if err := s.sql.Bounds.Row(ctx, tx, nil).Scan(&b.since, &b.highest, &b.newest, &b.recent, &count, &b.complete, &b.from); err != nil {
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
