package pgstore

import (
	"context"
	"embed"
	"fmt"
	"hash/crc32"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

//go:embed sql
var statements embed.FS

// Pool is a pgx pool.
type Pool interface {
	pg.DB
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
}

// Store reads the outbox and the events relation, and writes the outbox under
// leases.
type Store struct {
	db Pool

	schema string
	events string // the relation, quoted
	way    pg.Way // of asking this server whether anything was committed
	sql    queries
}

// queries are in the files of sql, by verb.
type queries struct {
	Planning, Begin, ClaimParked, ClaimDue, ClaimReady, ClaimLittle, Server, LogPosition pg.Query
	Reading, Rehydrate, LetGo, EventTypes                                                pg.Query
	Marking, MarkReady, MarkParked, MarkRanges                                           pg.Query
	Park, Promote, Waiting                                                               pg.Query
	Prove, Advancing, Advance, Writers, Watermark                                        pg.Query
	Take, Forgotten, Undelivered, Unblock, Carrying, PauseOver, Raise, Regress           pg.Query
	Concede, Heal, HealOwn, HealFormer, HealKnown, HealKeys, HealTable, HealLock         pg.Query
	HealSettle                                                                           pg.Query
	Counting, Probing, Backlog, Oldest, Heads, DeadTopics, DeadSome                      pg.Query
	Throughput, Latency, Recent, Horizon, ReadOnly                                       pg.Query
	RetainDeliveries, RetainDedupe, RetainThroughput, RetainOwnership                    pg.Query
}

// New returns a store on the tables of that schema and looks at the events
// relation's columns, and at what the server lets this session's role ask.
func New(ctx context.Context, db Pool, schema string, events Relation) (*Store, error) {
	columns, err := events.Columns(ctx, db, schema,
		"sequence", "event_id", "stream_version", "event_type", "payload", "metadata", "tenant_id", "recorded_at")
	if err != nil {
		return nil, err
	}
	way, err := pg.WayOfChanges(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("delivery store: %w", err)
	}
	s := &Store{db: db, schema: schema, events: columns.Relation, way: way}
	// Where a pooler hands sessions around, each outbox has a setting of its own in them.
	safe := fmt.Sprintf("postrider.safe_%08x", crc32.ChecksumIEEE([]byte(schema+" "+columns.Relation)))
	if err := pg.Fill(statements, "sql/*.sql", "delivery", schema, &s.sql, append(pg.Replace(s.way), "{events}", columns.Relation, "{safe}", safe,
		"{routing_key}", columns.OrNull("routing_key", "text"), "{payload}", columns.Payload(), "{metadata}", columns.Metadata(), "{audit_only}", columns.AuditOnly(),
		"{occurred_at}", columns.Or("occurred_at", "timestamp with time zone", "e.recorded_at"))...); err != nil {
		return nil, fmt.Errorf("delivery store: %w", err)
	}
	return s, nil
}

// Way has the statements by which this server is asked for facts that not every server gives.
func (s *Store) Way() pg.Way { return s.way }
