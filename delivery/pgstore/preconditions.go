package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox/capture"
)

// Violation is a precondition of strict order (ordering partition) that does
// not hold; ordering stream needs some of them, too (Forbids).
type Violation struct {
	// Precondition is its stable name, one word.
	Precondition string
	// Detail describes the fault, with the names of objects and roles.
	Detail string
	// Cure is the SQL or the setting that mends it, and the way round it.
	Cure string
	// Warning marks what does not endanger the order and hampers operation only.
	Warning bool

	anyOrder bool
}

// Forbids reports whether a worker with that ordering may not start.
func (v Violation) Forbids(o delivery.Ordering) bool {
	return !v.Warning && (o != delivery.OrderStream || v.anyOrder)
}

// String gives all of it on one line.
func (v Violation) String() string {
	return v.Precondition + ": " + v.Detail + "; to mend it: " + v.Cure
}

// ErrStrict is returned where the order cannot be kept.
var ErrStrict = errors.New("the order cannot be kept here")

// RequireOrder is ErrStrict with everything that stands against that ordering; warnings do not.
func RequireOrder(ctx context.Context, db pg.DB, schema string, events Relation, o delivery.Ordering) error {
	violations, err := CheckStrict(ctx, db, schema, events)
	if err != nil {
		return err
	}
	var all []error
	for _, v := range violations {
		if v.Forbids(o) {
			all = append(all, errors.New(v.String()))
		}
	}
	if len(all) > 0 {
		return fmt.Errorf("%w: %w", ErrStrict, errors.Join(all...))
	}
	return nil
}

// otherwise ends the cure of whatever forbids strict order.
const otherwise = "; or run with --ordering stream"

// checks are the statements that look at a server and at the events relation before anything else is known of them.
type checks struct {
	Database, Server, Regressed, Columns, Exists, Room pg.Query

	// Each returns a row, detail and cure, for each way in which its precondition is violated.
	Primary, Table, Identity, Sequence, Grants, Isolation, Subscription, Rule, Durable, Policies pg.Query
	WriteAll, Writes, Statistics, Idle, Prepared, Behind                                         pg.Query
}

func loadChecks(schema string) (c checks, err error) {
	err = pg.Fill(statements, "sql/checks/*.sql", "delivery", schema, &c)
	return c, err
}

type precondition struct {
	name     string
	query    pg.Query
	ofEvents bool // the statement takes the events relation
	warning  bool
	anyOrder bool // another ordering is no way round it
}

// preconditions are in the order in which they are reported.
func (c checks) preconditions() []precondition {
	return []precondition{
		{name: "primary", query: c.Primary},
		{name: "table", query: c.Table, ofEvents: true},
		{name: "identity", query: c.Identity, ofEvents: true},
		{name: "sequence", query: c.Sequence, ofEvents: true},
		{name: "grants", query: c.Grants, ofEvents: true},
		{name: "isolation", query: c.Isolation},
		{name: "subscription", query: c.Subscription, ofEvents: true},
		{name: "rule", query: c.Rule, ofEvents: true},
		{name: "durable", query: c.Durable, anyOrder: true},
		{name: "policies", query: c.Policies, ofEvents: true, anyOrder: true},
		{name: "write_all", query: c.WriteAll, warning: true},
		{name: "writes", query: c.Writes, ofEvents: true, warning: true},
		{name: "statistics", query: c.Statistics, warning: true},
		{name: behind, query: c.Behind, ofEvents: true, warning: true},
		{name: "idle", query: c.Idle, warning: true},
		{name: "prepared", query: c.Prepared, warning: true},
	}
}

// CheckStrict looks whether strict order can be kept: the safe watermark rests
// on what only the catalog can tell. It returns what is violated in a fixed
// order, warnings last; a worker must refuse strict order when one of them is
// not a Warning. The session must be made as those of the delivery are.
//
// It writes nothing, needs no privilege and takes one round trip, two when its
// statements have to be prepared. A relation that is missing or has no column
// sequence is ErrEventsRelation.
func CheckStrict(ctx context.Context, db pg.DB, schema string, events Relation) ([]Violation, error) {
	ask, err := loadChecks(schema)
	if err != nil {
		return nil, fmt.Errorf("preconditions of strict order: %w", err)
	}
	relation := events.within(schema)
	batch := &pgx.Batch{}
	ask.Exists.Queue(batch, pg.Args{"relation": relation}).QueryRow(func(row pgx.Row) error {
		var exists bool
		if err := row.Scan(&exists); err != nil || exists {
			return err
		}
		return fmt.Errorf("%w %s does not exist or has no column sequence", ErrEventsRelation, relation)
	})
	var found []Violation
	for _, p := range ask.preconditions() {
		var args pg.Args
		if p.ofEvents {
			args = pg.Args{"relation": relation}
		}
		p.query.Queue(batch, args).Query(func(rows pgx.Rows) error {
			more, err := pgx.CollectRows(rows, p.violation)
			found = append(found, more...)
			return err
		})
	}
	if err := db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("preconditions of strict order: %w", err)
	}
	return found, nil
}

// The preconditions of writes.
const (
	behind   = "behind"
	captured = "captured"
)

// WriteFaultKinds are the preconditions that WriteFaults may name.
func WriteFaultKinds() []string { return []string{behind, captured} }

// WriteFaults lists why writes fail, or have no events, while delivery goes on: sequences behind their tables, and what is wrong with
// captured and adopted tables. The role is told of what it may read. It takes two round trips, and writes nothing.
func (s *Store) WriteFaults(ctx context.Context) ([]Violation, error) {
	ask, err := loadChecks(s.schema)
	if err != nil {
		return nil, fmt.Errorf("faults of writes: %w", err)
	}
	found, err := pg.Collect(ctx, s.db, ask.Behind, pg.Args{"relation": s.events}, precondition{name: behind, warning: true}.violation)
	if err != nil {
		return nil, fmt.Errorf("faults of writes: %w", err)
	}
	triggers, err := capture.List(ctx, s.db, s.schema)
	if err != nil {
		return nil, fmt.Errorf("faults of writes: %w", err)
	}
	for _, t := range triggers {
		for _, f := range t.Flaws {
			found = append(found, Violation{Precondition: captured, Detail: t.Table + ": " + f.Problem, Cure: f.Cure, Warning: true})
		}
	}
	return found, nil
}

func (p precondition) violation(row pgx.CollectableRow) (Violation, error) {
	v := Violation{Precondition: p.name, Warning: p.warning, anyOrder: p.anyOrder}
	err := row.Scan(&v.Detail, &v.Cure)
	if !p.warning && !p.anyOrder {
		v.Cure += otherwise
	}
	return v, err
}
