package contracts

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/pg"
)

//go:embed sql/*.sql
var embedded embed.FS

// These bounds are in bytes. A schema is read with every append of its type.
const (
	typeLimit        = 1024
	schemaLimit      = 256 << 10
	descriptionLimit = 2000
)

// Store keeps the contracts of one outbox.
type Store struct {
	outbox *maintenance.Outbox
	sql    queries
}

type queries struct{ Problem, Put, Find, List, Remove, Seen pg.Query }

// New returns a store on the tables of that schema and looks at the events relation's columns: a missing relation or
// column is pgstore.ErrEventsRelation.
func New(ctx context.Context, db pg.Conn, schema string, events pgstore.Relation) (*Store, error) {
	outbox, err := maintenance.New(db, schema)
	if err != nil {
		return nil, fmt.Errorf("contracts: %w", err)
	}
	of, err := events.Columns(ctx, db, schema, "sequence", "event_type")
	if err != nil {
		return nil, err
	}
	s := &Store{outbox: outbox}
	if err := pg.Fill(embedded, "sql/*.sql", "contracts", schema, &s.sql, "{events}", of.Relation, "{topic}", of.OrNull("topic", "text"),
		"{audit_only}", of.AuditOnly()); err != nil {
		return nil, fmt.Errorf("contracts: %w", err)
	}
	return s, nil
}

// Contract is the agreement on events of a type.
type Contract struct {
	Type string `json:"event_type"`
	// Schema is a JSON Schema.
	Schema json.RawMessage `json:"json_schema"`
	// Checked: payloads that do not fit the schema cannot be appended.
	Checked     bool      `json:"checked"`
	Description string    `json:"description,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
	// UpdatedAt is the time of its last change.
	UpdatedAt time.Time `json:"updated_at"`
}

// Options name who changes a contract, and why.
type Options struct {
	// Actor is required, as it is written to the audit; Reason may be empty.
	Actor, Reason string
	// DryRun validates, and changes nothing.
	DryRun bool
	// KeepChecked has Set leave Checked as it is.
	KeepChecked bool
	// Prune has Apply drop the contracts that its list does not name; Confirmed has it end checks.
	Prune, Confirmed bool
}

// Set makes the contract of a type, or changes it; it ignores times, and an empty schema or description stays unchanged. It returns the
// contract before, nil for none.
func (s *Store) Set(ctx context.Context, c Contract, o Options) (before *Contract, err error) {
	if err := errors.Join(c.validate(), o.validate()); err != nil {
		return nil, err // before the type is looked for, which may be no text
	}
	err = s.change(ctx, o, func(tx pgx.Tx) error {
		if before, err = s.find(ctx, tx, c.Type); err != nil {
			return err
		}
		if before != nil {
			c.Schema = json.RawMessage(cmp.Or(string(c.Schema), string(before.Schema)))
			c.Description = cmp.Or(c.Description, before.Description)
			c.Checked = c.Checked || o.KeepChecked && before.Checked
		}
		if _, err := s.fits(ctx, tx, c); err != nil {
			return err
		}
		return s.put(ctx, tx, c, before, o)
	})
	return before, err
}

func (s *Store) put(ctx context.Context, tx pgx.Tx, c Contract, before *Contract, o Options) error {
	if o.DryRun {
		return nil
	}
	if _, err := s.sql.Put.Exec(ctx, tx, pg.Args{
		"type": c.Type, "json_schema": string(c.Schema), "checked": c.Checked, "description": c.Description,
	}); err != nil {
		return err
	}
	return s.outbox.Record(ctx, tx, o.Actor, "type.set", target{c.Type}, o.Reason, details{&c, before})
}

// Drop ends a contract: payloads of the type are checked no more. It returns the contract.
func (s *Store) Drop(ctx context.Context, name string, o Options) (before *Contract, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	err = s.change(ctx, o, func(tx pgx.Tx) error {
		if before, err = s.find(ctx, tx, name); err != nil {
			return err
		}
		if before == nil {
			return unknown(name)
		}
		return s.remove(ctx, tx, before, o)
	})
	return before, err
}

func (s *Store) remove(ctx context.Context, tx pgx.Tx, before *Contract, o Options) error {
	if o.DryRun {
		return nil
	}
	if _, err := s.sql.Remove.Exec(ctx, tx, pg.Args{"type": before.Type}); err != nil {
		return err
	}
	return s.outbox.Record(ctx, tx, o.Actor, "type.drop", target{before.Type}, o.Reason, details{nil, before})
}

// Find returns the contract of a type.
func (s *Store) Find(ctx context.Context, name string) (c *Contract, err error) {
	err = s.outbox.Read(ctx, func(tx pgx.Tx) error {
		c, err = s.find(ctx, tx, name)
		return err
	})
	if err == nil && c == nil {
		err = unknown(name)
	}
	return c, err
}

// List returns all contracts by their types.
func (s *Store) List(ctx context.Context) (list []Contract, err error) {
	err = s.outbox.Read(ctx, func(tx pgx.Tx) error {
		list, err = pg.Collect(ctx, tx, s.sql.List, nil, row)
		return err
	})
	return list, err
}

// Seen is a topic with a type of its events.
type Seen struct {
	Topic, Type string
	// Events counts them among the events read, Newest is the last one's sequence.
	Events, Newest int64
}

// Seen reads so many of the newest events, and leaves out those that are never published.
func (s *Store) Seen(ctx context.Context, newest int) (list []Seen, err error) {
	if newest < 1 {
		return nil, maintenance.Refuse("newest", "must be at least 1, got %d", newest)
	}
	err = s.outbox.Read(ctx, func(tx pgx.Tx) error {
		list, err = pg.Collect(ctx, tx, s.sql.Seen, pg.Args{"newest": newest}, pgx.RowToStructByPos[Seen])
		return err
	})
	return list, err
}

type target struct {
	Type string `json:"type"`
}

type details struct {
	After  *Contract `json:"after,omitempty"`
	Before *Contract `json:"before,omitempty"`
}

func (s *Store) change(ctx context.Context, o Options, do func(pgx.Tx) error) error {
	if o.DryRun {
		return s.outbox.Read(ctx, do)
	}
	return s.outbox.Write(ctx, do)
}

// fits refuses, with the reason, a schema that the table would refuse. It returns the schema as the table has it.
func (s *Store) fits(ctx context.Context, tx pgx.Tx, c Contract) (stored string, err error) {
	if err := c.validate(); err != nil {
		return "", err
	}
	if len(c.Schema) == 0 {
		return "", maintenance.Refuse("json-schema", "is needed: nothing is registered of %q", c.Type)
	}
	var problem *string
	err = s.sql.Problem.Row(ctx, tx, pg.Args{"json_schema": string(c.Schema)}).Scan(&problem, &stored)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && (strings.HasPrefix(refused.Code, "22") || strings.HasPrefix(refused.Code, "54")): // data, limits
		return "", maintenance.Refuse("json-schema", "does not fit jsonb: %s", refused.Message)
	case err == nil && problem != nil && c.Checked:
		return "", maintenance.Refuse("json-schema", "%s", *problem)
	}
	return stored, err
}

func (s *Store) find(ctx context.Context, tx pgx.Tx, name string) (*Contract, error) {
	list, err := pg.Collect(ctx, tx, s.sql.Find, pg.Args{"type": name}, row)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

func row(r pgx.CollectableRow) (c Contract, err error) {
	var text string
	err = r.Scan(&c.Type, &text, &c.Checked, &c.Description, &c.CreatedAt, &c.UpdatedAt)
	c.Schema = json.RawMessage(text)
	return c, err
}

func unknown(name string) error {
	return maintenance.Refuse("type", "%q has no contract", name)
}

func (c Contract) validate() error {
	var object map[string]json.RawMessage
	switch {
	case c.Type == "" || len(c.Type) > typeLimit || maintenance.CheckText("type", c.Type) != nil:
		return maintenance.Refuse("type", "must be 1 to %d bytes of text", typeLimit)
	case len(c.Schema) > schemaLimit:
		return maintenance.Refuse("json-schema", "must have at most %d bytes, got %d", schemaLimit, len(c.Schema))
	case len(c.Description) > descriptionLimit || maintenance.CheckText("description", c.Description) != nil:
		return maintenance.Refuse("description", "must be text of at most %d bytes", descriptionLimit)
	}
	if err := json.Unmarshal(c.Schema, &object); len(c.Schema) > 0 && (err != nil || object == nil) {
		return maintenance.Refuse("json-schema", "must be one JSON object: %v", err)
	}
	return nil
}

func (o Options) validate() error { return maintenance.CheckWords(o.Actor, o.Reason, false) }
