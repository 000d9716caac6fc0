package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// Relation names the table or view that holds the events.
type Relation struct {
	// Schema may be empty: then the outbox's schema.
	Schema string
	Name   string
}

// ErrEventsRelation is returned when the events relation is missing or lacks a
// column.
var ErrEventsRelation = errors.New("events relation")

// ParseRelation reads "name" or "schema.name"; quotes and other characters are
// refused.
func ParseRelation(text string) (Relation, error) {
	if err := pg.CheckRelation(text); err != nil {
		return Relation{}, fmt.Errorf("%w: %w", ErrEventsRelation, err)
	}
	if schema, name, found := strings.Cut(text, "."); found {
		return Relation{Schema: schema, Name: name}, nil
	}
	return Relation{Name: text}, nil
}

// within is the relation's quoted name; schema is the outbox's.
func (r Relation) within(schema string) string {
	if r.Schema != "" {
		schema = r.Schema
	}
	return pgx.Identifier{schema, cmp.Or(r.Name, "events")}.Sanitize()
}

// Columns is an events relation with its columns.
type Columns struct {
	// Relation is its quoted name.
	Relation string
	types    map[string]string
}

// Columns looks at the relation, which lies in that schema unless it names one. That
// it is missing, or lacks one of the columns needed, is ErrEventsRelation.
func (r Relation) Columns(ctx context.Context, db pg.Querier, schema string, needed ...string) (Columns, error) {
	c := Columns{Relation: r.within(schema), types: map[string]string{}}
	ask, err := loadChecks(schema)
	if err != nil {
		return c, fmt.Errorf("events relation: %w", err)
	}
	rows, err := ask.Columns.Rows(ctx, db, pg.Args{"relation": c.Relation})
	if err != nil {
		return c, fmt.Errorf("%w %s: %w", ErrEventsRelation, c.Relation, err)
	}
	var name, kind string
	if _, err := pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		c.types[name] = kind
		return nil
	}); err != nil {
		return c, fmt.Errorf("%w %s: %w", ErrEventsRelation, c.Relation, err)
	}
	if len(c.types) == 0 {
		return c, fmt.Errorf("%w %s does not exist; create it, or name another one with `postrider migrate up --events-relation`", ErrEventsRelation, c.Relation)
	}
	for _, column := range needed {
		if c.types[column] == "" {
			return c, fmt.Errorf("%w %s has no column %s", ErrEventsRelation, c.Relation, column)
		}
	}
	return c, nil
}

// Or is the expression of a column of the event e, and another one where the relation
// has no such column of that type.
func (c Columns) Or(column, kind, other string) string {
	if c.types[column] == kind {
		return "e." + column
	}
	return other
}

// OrNull is Or with NULL.
func (c Columns) OrNull(column, kind string) string { return c.Or(column, kind, "NULL::"+kind) }

// AuditOnly is the expression that is true for an event e that is never published.
func (c Columns) AuditOnly() string {
	return "coalesce(" + c.OrNull("audit_only", "boolean") + ", false)"
}

// Metadata is the metadata of the event e. JSON that no text can hold, which type json admits, counts as none: else it fails all events
// that are read with it.
func (c Columns) Metadata() string {
	return c.Or("metadata", "jsonb", `CASE WHEN NOT `+pg.Unread("e.metadata")+` THEN e.metadata END`)
}

// Payload is the payload of the event e, as bytea: also where the column has become one meanwhile.
func (c Columns) Payload() string {
	return c.Or("payload", "bytea", "CASE WHEN pg_typeof(e.payload) = 'bytea'::regtype THEN e.payload::text::bytea ELSE convert_to(e.payload::text, 'UTF8') END")
}
