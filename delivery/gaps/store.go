package gaps

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
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
	db   DB
	text sqlfile.Set
}

// New returns a store on the tables of that schema and looks at the events
// relation's columns: a missing relation or column is delivery.ErrEventsRelation.
func New(ctx context.Context, db DB, schema string, events delivery.Relation) (*Store, error) {
	set, err := sqlfile.Load(embedded, "sql", schema)
	if err != nil {
		return nil, fmt.Errorf("gaps: %w", err)
	}
	if events.Schema == "" {
		events.Schema = schema
	}
	if events.Name == "" {
		events.Name = "events"
	}
	columns, err := eventsColumns(ctx, db, set["columns"], pgx.Identifier{events.Schema, events.Name}.Sanitize())
	if err != nil {
		return nil, err
	}
	for name, text := range set {
		set[name] = columns.Replace(text)
	}
	return &Store{db: db, text: set}, nil
}

// eventsColumns checks the relation and returns what depends on its columns.
func eventsColumns(ctx context.Context, db DB, sql, quoted string) (*strings.Replacer, error) {
	rows, err := db.Query(ctx, sql, quoted)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", delivery.ErrEventsRelation, quoted, err)
	}
	types := map[string]string{}
	var name, kind string
	if _, err := pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		types[name] = kind
		return nil
	}); err != nil {
		return nil, fmt.Errorf("%w %s: %w", delivery.ErrEventsRelation, quoted, err)
	}
	if len(types) == 0 {
		return nil, fmt.Errorf("%w %s does not exist; run `postrider migrate up` or set --events-relation", delivery.ErrEventsRelation, quoted)
	}
	for _, column := range []string{"sequence", "event_id", "stream_id", "stream_version", "recorded_at"} {
		if types[column] == "" {
			return nil, fmt.Errorf("%w %s has no column %s", delivery.ErrEventsRelation, quoted, column)
		}
	}
	optional := func(column, kind string) string {
		if types[column] == kind {
			return "e." + column
		}
		return "NULL::" + kind
	}
	return strings.NewReplacer("{events}", quoted, "{topic}", optional("topic", "text"), "{routing_key}", optional("routing_key", "text"),
		"{audit_only}", "coalesce("+optional("audit_only", "boolean")+", false)"), nil
}

// planning has every statement planned for its own values and keeps pages in the
// order of their indexes.
const planning = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('lock_timeout', '5s', true)`

// read gives fn one snapshot of the database.
func (s *Store) read(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, planning); err != nil {
			return err
		}
		return fn(tx)
	})
}

// look reads rows of one statement in a snapshot of its own; each is scanned into
// the targets before row is called.
func (s *Store) look(ctx context.Context, name string, args, into []any, row func() error) error {
	return s.read(ctx, func(tx pgx.Tx) error {
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
	highest    int64
	newest     int64     // the last batch of the history
	recent     time.Time // history rows that appear later are younger
	count      partition.Count
	partitions []partition.ID
}

func (s *Store) bounds(ctx context.Context, o Options) (b bounds, err error) {
	err = s.read(ctx, func(tx pgx.Tx) error {
		var count int
		if err := tx.QueryRow(ctx, s.text["bounds"]).Scan(&b.since, &b.highest, &b.newest, &b.recent, &count); err != nil {
			return err
		}
		b.count = partition.Count(count)
		return tx.QueryRow(ctx, s.text["partitions"]).Scan(&b.partitions)
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
