package replay

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/sqlfile"
	"github.com/postrider/postrider/partition"
)

//go:embed sql/*.sql
var embedded embed.FS

// DB is what replays need of a pgx pool.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Store makes replays and works them off. It may be used by several goroutines
// if its DB may.
type Store struct {
	db     DB
	text   map[string]string
	events string // the relation, quoted
}

// The conditions of a selection on the event e.
const match = `NOT {audit_only}
   AND ($4::text IS NULL OR e.stream_id = $4)
   AND ($5::text IS NULL OR e.event_type = $5)
   AND ($6::text IS NULL OR {topic} = $6)
   AND ($7::text IS NULL OR e.tenant_id = $7)
   AND ($8::timestamptz IS NULL OR e.recorded_at >= $8)
   AND ($9::timestamptz IS NULL OR e.recorded_at < $9)`

// unwanted are the events that operators skipped or discarded: the history forgets
// them, the audit does not.
const unwanted = `u.sequence::bigint AS sequence
         FROM {schema}.outbox_audit AS a
        CROSS JOIN LATERAL jsonb_array_elements_text(a.target -> 'sequences') AS u (sequence)
        WHERE a.action IN ('dead.skip', 'dead.discard')`

// What a kind adds to them. $10 is the replay's last sequence.
const (
	everyEvent = `$10::bigint IS NOT NULL`
	lastEvent  = `NOT EXISTS (SELECT FROM {events} AS l
                    WHERE l.stream_id = e.stream_id AND l.stream_version > e.stream_version AND l.sequence <= $10::bigint
                      AND {match of l})`
)

// New returns a store on the tables of that schema and looks at the events
// relation's columns: a missing relation or column is delivery.ErrEventsRelation.
func New(ctx context.Context, db DB, schema string, events delivery.Relation) (*Store, error) {
	set, err := sqlfile.Load(embedded, "sql", schema)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if events.Schema == "" {
		events.Schema = schema
	}
	if events.Name == "" {
		events.Name = "events"
	}
	s := &Store{db: db, text: map[string]string{}, events: pgx.Identifier{events.Schema, events.Name}.Sanitize()}
	columns, err := eventsColumns(ctx, db, set["columns"], s.events)
	if err != nil {
		return nil, err
	}
	ofE := columns.Replace(match)
	later := strings.ReplaceAll(columns.Replace(lastEvent), "{match of l}", strings.ReplaceAll(ofE, "e.", "l."))
	for _, name := range []string{"waiting", "count", "leave_out"} {
		set[name+pastOutbox] = strings.ReplaceAll(set[name], "{held}", "o.replay_id IS NULL")
		set[name] = strings.ReplaceAll(set[name], "{held}", "true")
	}
	for name, text := range set {
		text = columns.Replace(strings.ReplaceAll(text, "{match}", ofE))
		text = strings.ReplaceAll(text, "{unwanted}", strings.ReplaceAll(unwanted, "{schema}", pgx.Identifier{schema}.Sanitize()))
		s.text[name+" of "+string(Range)] = strings.ReplaceAll(text, "{current}", everyEvent)
		s.text[name+" of "+string(RebuildCurrent)] = strings.ReplaceAll(text, "{current}", later)
		s.text[name] = s.text[name+" of "+string(Range)]
	}
	return s, nil
}

// pastOutbox ends the names of statements for shadows: rows that another replay
// queued again were published before, so they are not left out of a shadow.
const pastOutbox = " past the outbox"

func (j Job) held() string {
	if j.Destination == Shadow {
		return pastOutbox
	}
	return ""
}

// of returns a statement that depends on the kind.
func (s *Store) of(name string, k Kind) string {
	if k == RebuildCurrent {
		return s.text[name+" of "+string(RebuildCurrent)]
	}
	return s.text[name]
}

// page returns the statement that reads the next events. Those of one stream are
// read by its index: their versions ascend as their sequences do.
func (s *Store) page(j Job) string {
	order := "e.sequence"
	if j.Selection.Stream != "" {
		order = "e.stream_version"
	}
	return strings.ReplaceAll(s.of("page", j.Kind), "{order}", order)
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
	for _, column := range []string{"sequence", "event_id", "stream_id", "stream_version", "event_type", "tenant_id", "recorded_at"} {
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

// planning has every statement planned for its own values, so that conditions
// that are not given vanish from the plan, and pages read from indexes in their
// order.
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

// write gives fn a transaction whose every statement sees what was committed
// before it.
func (s *Store) write(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, planning); err != nil {
			return err
		}
		return fn(tx)
	})
}

// partitions lists the partitions that there are.
func (s *Store) partitions(ctx context.Context, tx pgx.Tx) (ids []partition.ID, err error) {
	err = tx.QueryRow(ctx, s.text["partitions"]).Scan(&ids)
	return ids, err
}

// record writes one row of the audit.
func (s *Store) record(ctx context.Context, tx pgx.Tx, actor, action string, target any, reason string, details any) error {
	if _, err := tx.Exec(ctx, s.text["audit"], actor, action, target, reason, details); err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	return nil
}

// arguments are the parameters $4 to $9 of a selection.
func (s Selection) arguments() []any {
	return []any{orNull(s.Stream), orNull(s.Type), orNull(s.Topic), orNull(s.Tenant), s.Since, s.Until}
}

// orNull makes a parameter that is NULL where nothing was asked for.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// refusedWith tells whether the database refused with that SQLSTATE.
func refusedWith(err error, code string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == code
}

// SQLSTATEs that are answered.
const (
	uniqueViolation  = "23505"
	lockNotAvailable = "55P03"
	deadlockDetected = "40P01"
)

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
