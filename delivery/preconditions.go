package delivery

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/sqlfile"
)

// Violation is a precondition of strict order (ordering partition) that does
// not hold.
type Violation struct {
	// Precondition is its stable name, one word.
	Precondition string
	// Detail says what is wrong, with the names of objects and roles.
	Detail string
	// Cure is the SQL or the setting that mends it, and the way round it.
	Cure string
	// Warning marks what does not endanger the order and hampers operation only.
	Warning bool
}

// String gives all of it on one line.
func (v Violation) String() string {
	return v.Precondition + ": " + v.Detail + "; to mend it: " + v.Cure
}

// otherwise ends the cure of whatever forbids strict order.
const otherwise = "; or run with --ordering stream"

// precondition names a statement that returns a row, detail and cure, for each
// way in which it is violated.
type precondition struct {
	name, statement string
	ofEvents        bool // the statement takes the events relation
	warning         bool
}

// preconditions are in the order in which they are reported.
func preconditions() []precondition {
	return []precondition{
		{name: "primary", statement: "precondition_primary"},
		{name: "table", statement: "precondition_table", ofEvents: true},
		{name: "identity", statement: "precondition_identity", ofEvents: true},
		{name: "sequence", statement: "precondition_sequence", ofEvents: true},
		{name: "grants", statement: "precondition_grants", ofEvents: true},
		{name: "isolation", statement: "precondition_isolation"},
		{name: "subscription", statement: "precondition_subscription", ofEvents: true},
		{name: "rule", statement: "precondition_rule", ofEvents: true},
		{name: "write_all", statement: "precondition_write_all", warning: true},
		{name: "writes", statement: "precondition_writes", ofEvents: true, warning: true},
		{name: "statistics", statement: "precondition_statistics", warning: true},
		{name: "idle", statement: "precondition_idle", warning: true},
		{name: "prepared", statement: "precondition_prepared", warning: true},
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
func CheckStrict(ctx context.Context, db DB, schema string, events Relation) ([]Violation, error) {
	set, err := sqlfile.Load(statements, "sql", schema)
	if err != nil {
		return nil, fmt.Errorf("preconditions of strict order: %w", err)
	}
	common, err := set.Need("precondition_exists", "precondition_family")
	if err != nil {
		return nil, fmt.Errorf("preconditions of strict order: %w", err)
	}
	relation := events.within(schema)
	batch := &pgx.Batch{}
	batch.Queue(common[0], relation).QueryRow(func(row pgx.Row) error {
		var exists bool
		if err := row.Scan(&exists); err != nil || exists {
			return err
		}
		return fmt.Errorf("%w %s does not exist or has no column sequence", ErrEventsRelation, relation)
	})
	var found []Violation
	for _, p := range preconditions() {
		text, err := set.Need(p.statement)
		if err != nil {
			return nil, fmt.Errorf("preconditions of strict order: %w", err)
		}
		var args []any
		if p.ofEvents {
			args = []any{relation}
		}
		batch.Queue(strings.Replace(text[0], "{family}", common[1], 1), args...).Query(func(rows pgx.Rows) error {
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

func (p precondition) violation(row pgx.CollectableRow) (Violation, error) {
	v := Violation{Precondition: p.name, Warning: p.warning}
	err := row.Scan(&v.Detail, &v.Cure)
	if !p.warning {
		v.Cure += otherwise
	}
	return v, err
}
