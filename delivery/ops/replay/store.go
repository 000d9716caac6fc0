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
	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/internal/sqlfile"
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
	outbox *maintenance.Outbox
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
        WHERE a.action IN ('dead.skip', 'dead.discard', 'scheduled.cancel')`

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
	outbox, err := maintenance.New(db, schema, "lock_timeout", maintenance.LockPatience.String())
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	of, err := events.Columns(ctx, db, schema, "sequence", "event_id", "stream_id", "stream_version", "event_type", "tenant_id", "recorded_at")
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, outbox: outbox, text: map[string]string{}, events: of.Relation}
	columns := strings.NewReplacer("{events}", of.Relation, "{topic}", of.OrNull("topic", "text"),
		"{routing_key}", of.OrNull("routing_key", "text"), "{audit_only}", of.AuditOnly())
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
