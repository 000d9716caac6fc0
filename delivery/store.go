package delivery

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/sqlfile"
)

//go:embed sql
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
	retainOwnership                                  string

	claimReady, claimParked, claimDue, claimLittle  string
	position                                        string
	flush, rehydrate                                string
	markPlaces, markReady, markParked               string
	park, promote                                   string
	advance, watermark, writers                     string
	undelivered, unblock, suspect, parkedOf         string
	oldest, heads, deadTopics, deadSome, eventTypes string
	heal, regress, raise                            string
	healFormer, healKnown, healKeys, healSettle     string
	healLock, healTable                             string
	backlog, horizon, throughput, latency, rate     string
	readOnly                                        string
}

// NewStore returns a store on the tables of that schema and looks at the events
// relation's columns.
func NewStore(ctx context.Context, db Pool, schema string, events Relation) (*Store, error) {
	set, err := sqlfile.Load(statements, "sql", schema)
	if err != nil {
		return nil, fmt.Errorf("delivery store: %w", err)
	}
	columns, err := events.Columns(ctx, db, schema,
		"sequence", "event_id", "stream_version", "event_type", "payload", "metadata", "tenant_id", "recorded_at")
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, events: columns.Relation}
	relation := strings.NewReplacer("{events}", s.events, "{routing_key}", columns.OrNull("routing_key", "text"))
	var mark, held, flowing, anythingParked string
	for _, one := range []struct {
		into *string
		name string
	}{
		{&s.claimReady, "claim_ready"},
		{&s.claimParked, "claim_parked"},
		{&s.claimDue, "claim_due"},
		{&s.claimLittle, "claim_little"},
		{&s.position, "position"},
		{&s.flush, "flush"},
		{&s.rehydrate, "rehydrate"},
		{&s.markPlaces, "mark_bulk"},
		{&mark, "mark"},
		{&held, "mark_held"},
		{&flowing, "claim_flowing"},
		{&anythingParked, "claim_anything_parked"},
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
		{&s.healFormer, "heal_former"},
		{&s.healKnown, "heal_known"},
		{&s.healKeys, "heal_keys"},
		{&s.healSettle, "heal_settle"},
		{&s.healLock, "heal_lock"},
		{&s.healTable, "heal_table"},
		{&s.regress, "regress"},
		{&s.raise, "raise"},
		{&s.backlog, "backlog"},
		{&s.oldest, "oldest"},
		{&s.heads, "heads"},
		{&s.deadTopics, "dead_topics"},
		{&s.deadSome, "dead_some"},
		{&s.eventTypes, "event_types"},
		{&s.horizon, "horizon"},
		{&s.throughput, "throughput"},
		{&s.latency, "latency"},
		{&s.readOnly, "read_only"},
		{&s.rate, "rate"},
		{&s.retainDeliveries, "retain_deliveries"},
		{&s.retainDedupe, "retain_dedupe"},
		{&s.retainThroughput, "retain_throughput"},
		{&s.retainOwnership, "retain_ownership"},
	} {
		text, err := set.Need(one.name)
		if err != nil {
			return nil, fmt.Errorf("delivery store: %w", err)
		}
		*one.into = relation.Replace(text[0])
	}
	s.compose(columns, mark, held, flowing, anythingParked)
	return s, nil
}

// compose puts together the statements that have pieces in common.
func (s *Store) compose(columns Columns, mark, held, flowing, anythingParked string) {
	shared := strings.NewReplacer("{held}", strings.TrimSpace(held), "{flowing}", strings.TrimSpace(flowing), "{anything_parked}", strings.TrimSpace(anythingParked))
	for _, text := range []*string{&s.claimReady, &s.claimParked, &s.claimDue, &s.markPlaces, &mark} {
		*text = shared.Replace(*text)
	}
	rehydrate := func(sequences, most string) string {
		return strings.NewReplacer("{payload}", columns.Payload(), "{audit_only}", columns.AuditOnly(),
			"{occurred_at}", columns.Or("occurred_at", "timestamp with time zone", "e.recorded_at"),
			"{sequences}", sequences, "{most}", most).Replace(s.rehydrate)
	}
	s.claimLittle = strings.NewReplacer("{claim}", s.claimReady, "{event}", rehydrate("ARRAY[c.global_sequence]", "$10")).Replace(s.claimLittle)
	s.rehydrate = rehydrate("$1", "$2")
	s.markReady = strings.ReplaceAll(mark, "{rows}", "outbox_ready")
	s.markParked = strings.ReplaceAll(mark, "{rows}", "outbox_parked")
}
