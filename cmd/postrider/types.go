package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/contracts"
)

type typesCmd struct {
	Set  typesSetCmd  `cmd:"" help:"Register the JSON Schema of an event type, and have payloads checked with it."`
	List typesListCmd `cmd:"" help:"List the event types that are registered."`
	Show typesShowCmd `cmd:"" help:"Show what is registered of one."`
	Drop typesDropCmd `cmd:"" help:"Forget one; its payloads are checked no more."`
}

// typesFlags are those of all commands for types.
type typesFlags struct {
	databaseFlags
	JSON bool `help:"Print JSON." name:"json"`
}

// with opens the store and has it do its work.
func (f typesFlags) with(s *session, do func(*contracts.Store) error) error {
	pool, info, err := f.outbox(s.ctx, "postrider types", 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	events, err := eventsOf(info)
	if err != nil {
		return err
	}
	store, err := contracts.New(s.ctx, pool, f.Schema, events)
	if err != nil {
		return err
	}
	err = do(store)
	var input *ops.InputError
	switch {
	case errors.As(err, &input) && input.Field == "type":
		return fmt.Errorf("%w: TYPE %s", errRefused, input.Problem)
	default:
		return flagRefused(err)
	}
}

// typeFlags are those of what changes one.
type typeFlags struct {
	typesFlags
	actorFlags
	Type   string `arg:"" name:"type" help:"The event type."`
	DryRun bool   `help:"Say what would be done, and do nothing." env:"-"`
}

func (f typeFlags) options() contracts.Options {
	return contracts.Options{Actor: f.actor(), Reason: f.Reason, DryRun: f.DryRun}
}

// typeBody is the JSON form of a change.
type typeBody struct {
	Type    string `json:"event_type"`
	Checked bool   `json:"checked"`
	// Before is what was registered before.
	Before *contracts.Contract `json:"before,omitempty"`
	DryRun bool                `json:"dry_run"`
}

// print tells of a change.
func (f typeFlags) print(s *session, checked bool, before *contracts.Contract, text string) error {
	if f.JSON {
		return writeJSON(s.stdout, typeBody{f.Type, checked, before, f.DryRun})
	}
	if f.DryRun {
		text += "; nothing was done"
	}
	_, err := fmt.Fprintln(s.stdout, printable(text))
	return err
}

type typesSetCmd struct {
	typeFlags
	JSONSchema  string `help:"File with the JSON Schema." name:"json-schema" required:"" placeholder:"FILE" env:"-"`
	Check       bool   `help:"Refuse to append payloads that do not fit. Without it they are not checked, whatever was set before." env:"-"`
	Description string `help:"What events of the type tell. Without it that of before." placeholder:"TEXT" env:"-"`
}

// Help explains below the flags.
func (c *typesSetCmd) Help() string {
	return `With --check whoever appends an event of the type, in whatever way, gets an error unless the payload is JSON that fits:
SQLSTATE OB002, which names type, place and rule. Events that are stored already are not looked at.

Checked are, of JSON Schema 2020-12: type, enum, const, minLength, maxLength, pattern, minimum, maximum, items, minItems,
maxItems, properties, required, additionalProperties, $ref to #/$defs/NAME. A schema that has more is refused, but for
words that only describe; without --check it may have anything. Patterns are of the part of regular expressions that
PostgreSQL and others read alike; a dot matches ends of lines, too.

Examples:
  postrider types set order.paid --json-schema order.paid.json --check
  postrider types set order.paid --json-schema order.paid.json --check --dry-run`
}

// Run registers a type.
func (c *typesSetCmd) Run(s *session) error {
	text, err := os.ReadFile(c.JSONSchema)
	if err != nil {
		return fmt.Errorf("%w: --json-schema: %w", errRefused, err)
	}
	return c.with(s, func(store *contracts.Store) error {
		before, err := store.Set(s.ctx, contracts.Contract{Type: c.Type, Schema: text, Checked: c.Check, Description: c.Description}, c.options())
		if err != nil {
			return err
		}
		now := "payloads of " + c.Type + " are not checked"
		switch {
		case c.Check:
			now = "payloads of " + c.Type + " must fit the schema"
		case before != nil && before.Checked:
			now += " any more"
		}
		return c.print(s, c.Check, before, now)
	})
}

type typesListCmd struct{ typesFlags }

// Run lists.
func (c *typesListCmd) Run(s *session) error {
	return c.with(s, func(store *contracts.Store) error {
		list, err := store.List(s.ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.stdout, append([]contracts.Contract{}, list...))
		}
		var rows []table.Row
		for _, t := range list {
			rows = append(rows, table.Row{clip(t.Type, 60), t.Checked, t.CreatedAt.Format(time.RFC3339), t.UpdatedAt.Format(time.RFC3339), clip(t.Description, 60)})
		}
		writeTable(s.stdout, table.Row{"type", "checked", "since", "changed", "description"}, rows)
		return nil
	})
}

type typesShowCmd struct {
	typesFlags
	Type string `arg:"" name:"type" help:"The event type."`
}

// Run shows one.
func (c *typesShowCmd) Run(s *session) error {
	return c.with(s, func(store *contracts.Store) error {
		t, err := store.Find(s.ctx, c.Type)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.stdout, t)
		}
		var schema bytes.Buffer
		if err := json.Indent(&schema, t.Schema, "", "  "); err != nil {
			return err
		}
		checked := "not checked"
		if t.Checked {
			checked = "checked"
		}
		_, err = fmt.Fprintf(s.stdout, "%s: %s, since %s, changed %s\n", printable(t.Type), checked, t.CreatedAt.Format(time.RFC3339), t.UpdatedAt.Format(time.RFC3339))
		if err == nil && t.Description != "" {
			_, err = fmt.Fprintln(s.stdout, printable(t.Description))
		}
		if err == nil {
			_, err = fmt.Fprintln(s.stdout, schema.String())
		}
		return err
	})
}

type typesDropCmd struct{ typeFlags }

// Run forgets one.
func (c *typesDropCmd) Run(s *session) error {
	return c.with(s, func(store *contracts.Store) error {
		before, err := store.Drop(s.ctx, c.Type, c.options())
		if err != nil {
			return err
		}
		return c.print(s, false, before, c.Type+" is registered no more")
	})
}
