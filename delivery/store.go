package delivery

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/sqlfile"
)

//go:embed sql/*.sql
var statements embed.FS

// Pool is a pgx pool.
type Pool interface {
	DB
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
}

// DB is a pgx connection or pool.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Store reads the outbox and the events relation, and writes the outbox under
// leases.
type Store struct {
	db Pool

	events string // the relation, quoted

	retainDeliveries, retainDedupe, retainThroughput string

	claimReady, claimParked, claimDue, position string
	flush, rehydrate                            string
	markReady, markParked, park, promote        string
	advance, watermark, writers                 string
	undelivered, unblock, suspect, parkedOf     string
	oldest                                      string
	heal, regress                               string
	backlog, horizon, throughput, latency       string
}

// Relation names the table or view that holds the events.
type Relation struct {
	// Schema may be empty: then the outbox's schema.
	Schema string
	Name   string
}

// ErrEventsRelation is returned when the events relation is missing or lacks a
// column.
var ErrEventsRelation = errors.New("events relation")

var relationName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// ParseRelation reads "name" or "schema.name"; quotes and other characters are
// refused.
func ParseRelation(text string) (Relation, error) {
	if !relationName.MatchString(text) {
		return Relation{}, fmt.Errorf("%w: name must be a plain identifier or schema.identifier, got %q", ErrEventsRelation, text)
	}
	if schema, name, found := strings.Cut(text, "."); found {
		return Relation{Schema: schema, Name: name}, nil
	}
	return Relation{Name: text}, nil
}

// NewStore returns a store on the tables of that schema and looks at the events
// relation's columns.
func NewStore(ctx context.Context, db Pool, schema string, events Relation) (*Store, error) {
	set, err := sqlfile.Load(statements, "sql", schema)
	if err != nil {
		return nil, fmt.Errorf("delivery store: %w", err)
	}
	s := &Store{db: db, events: events.within(schema)}
	var mark, columns string
	for _, one := range []struct {
		into *string
		name string
	}{
		{&s.claimReady, "claim_ready"},
		{&s.claimParked, "claim_parked"},
		{&s.claimDue, "claim_due"},
		{&s.position, "position"},
		{&s.flush, "flush"},
		{&s.rehydrate, "rehydrate"},
		{&mark, "mark"},
		{&s.park, "park"},
		{&s.promote, "promote"},
		{&s.advance, "advance"},
		{&s.watermark, "watermark"},
		{&s.writers, "writers"},
		{&s.parkedOf, "parked_of"},
		{&s.undelivered, "undelivered"},
		{&s.unblock, "unblock"},
		{&s.suspect, "suspect"},
		{&s.heal, "heal"},
		{&s.regress, "regress"},
		{&s.backlog, "backlog"},
		{&s.oldest, "oldest"},
		{&s.horizon, "horizon"},
		{&s.throughput, "throughput"},
		{&s.latency, "latency"},
		{&columns, "events_columns"},
		{&s.retainDeliveries, "retain_deliveries"},
		{&s.retainDedupe, "retain_dedupe"},
		{&s.retainThroughput, "retain_throughput"},
	} {
		text, err := set.Need(one.name)
		if err != nil {
			return nil, fmt.Errorf("delivery store: %w", err)
		}
		*one.into = strings.ReplaceAll(text[0], "{events}", s.events)
	}
	replace, err := eventsColumns(ctx, db, columns, s.events)
	if err != nil {
		return nil, err
	}
	s.rehydrate = replace.Replace(s.rehydrate)
	s.markReady = strings.ReplaceAll(mark, "{rows}", "outbox_ready")
	s.markParked = strings.ReplaceAll(mark, "{rows}", "outbox_parked")
	return s, nil
}

// eventsColumns checks the relation and returns what the rehydration puts into
// its statement.
func eventsColumns(ctx context.Context, db DB, sql, quoted string) (*strings.Replacer, error) {
	rows, err := db.Query(ctx, sql, quoted)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrEventsRelation, quoted, err)
	}
	types := map[string]string{}
	var name, kind string
	if _, err := pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		types[name] = kind
		return nil
	}); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrEventsRelation, quoted, err)
	}
	if len(types) == 0 {
		return nil, fmt.Errorf("%w %s does not exist; run `postrider migrate up` or set --events-relation", ErrEventsRelation, quoted)
	}
	for _, column := range []string{"sequence", "event_id", "stream_version", "event_type", "payload", "metadata", "tenant_id", "recorded_at"} {
		if types[column] == "" {
			return nil, fmt.Errorf("%w %s has no column %s", ErrEventsRelation, quoted, column)
		}
	}
	payload := "e.payload"
	if types["payload"] != "bytea" {
		payload = "convert_to(e.payload::text, 'UTF8')"
	}
	auditOnly := "false"
	if types["audit_only"] == "boolean" {
		auditOnly = "e.audit_only"
	}
	occurredAt := "e.recorded_at"
	if types["occurred_at"] == "timestamp with time zone" {
		occurredAt = "e.occurred_at"
	}
	return strings.NewReplacer("{payload}", payload, "{audit_only}", auditOnly, "{occurred_at}", occurredAt), nil
}
