package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/contracts"
	"github.com/postrider/postrider/outbox/capture"
)

type typesCmd struct {
	Set  typesSetCmd  `cmd:"" help:"Register the JSON Schema of an event type, and have payloads checked with it."`
	List typesListCmd `cmd:"" help:"List the event types that are registered."`
	Show typesShowCmd `cmd:"" help:"Show what is registered of one."`
	Drop typesDropCmd `cmd:"" help:"Forget one; its payloads are checked no more."`

	Export typesExportCmd `cmd:"" help:"Print all types as a file for apply."`
	Apply  typesApplyCmd  `cmd:"" help:"Make the types what a file says."`
}

type typesFlags struct {
	databaseFlags
	JSON bool `help:"Print JSON." name:"json"`

	info outboxInfo // known once the database is open
}

// with opens the store and runs do with it.
func (f *typesFlags) with(s *session, do func(*contracts.Store) error) error {
	pool, info, err := f.outbox(s.ctx, "postrider types", 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	f.info = info
	store, err := contracts.New(s.ctx, pool, f.Schema, info.events)
	if err != nil {
		return err
	}
	err = do(store)
	if input := new(ops.InputError); errors.As(err, &input) && (input.Field == "type" || input.Field == "file") {
		return fmt.Errorf("%w: %s %s", errRefused, strings.ToUpper(input.Field), input.Problem)
	}
	return flagRefused(err)
}

type typeFlags struct {
	typesFlags
	actorFlags
	Type   string `arg:"" name:"type" help:"The event type."`
	DryRun bool   `help:"Say what would be done, and do nothing." env:"-"`
}

func (f typeFlags) options() contracts.Options {
	return contracts.Options{Actor: f.actor(), Reason: f.Reason, DryRun: f.DryRun}
}

type typeBody struct {
	Type    string `json:"event_type"`
	Checked bool   `json:"checked"`
	// Before is the replaced registration.
	Before *contracts.Contract `json:"before,omitempty"`
	DryRun bool                `json:"dry_run"`
}

func (f typeFlags) print(s *session, checked bool, before *contracts.Contract, text string) error {
	if f.DryRun {
		text += "; nothing was done"
	}
	return answer(s.stdout, f.JSON, typeBody{f.Type, checked, before, f.DryRun}, printable(text))
}

type typesSetCmd struct {
	typeFlags
	JSONSchema  string `help:"File with the JSON Schema." name:"json-schema" placeholder:"FILE" env:"-"`
	Check       *bool  `help:"Refuse to append payloads that do not fit." negatable:"" env:"-"`
	Description string `help:"What events of the type tell." placeholder:"TEXT" env:"-"`
}

func (c *typesSetCmd) Help() string {
	return `What is not given stays; a new type needs --json-schema, and is not checked without --check.

With --check whoever appends an event of the type, in whatever way, gets an error unless the payload is JSON that fits:
SQLSTATE OB002, which names type, place and rule. Events that are stored already are not looked at.

Checked are, of JSON Schema 2020-12: type, enum, const, minLength, maxLength, pattern, minimum, maximum, items, minItems,
maxItems, properties, required, additionalProperties, $ref to #/$defs/NAME, below the root not beside items and properties.
A schema that has more is refused, but for words that only describe; without --check it may have anything. Patterns are
of the part of regular expressions that PostgreSQL and others read alike; a dot matches ends of lines, too.

Examples:
  postrider types set order.paid --json-schema order.paid.json --check
  postrider types set order.paid --json-schema order.paid.json --check --dry-run
  postrider types set order.paid --no-check`
}

func (c *typesSetCmd) Run(s *session) error {
	var text []byte
	if c.JSONSchema != "" {
		var err error
		if text, err = os.ReadFile(c.JSONSchema); err != nil {
			return fmt.Errorf("%w: --json-schema: %w", errRefused, err)
		}
		text = append(text, '\n') // an empty file is not none
	}
	return c.with(s, func(store *contracts.Store) error {
		o := c.options()
		o.KeepChecked = c.Check == nil
		checked := c.Check != nil && *c.Check
		before, err := store.Set(s.ctx, contracts.Contract{Type: c.Type, Schema: text, Checked: checked, Description: c.Description}, o)
		if err != nil {
			return err
		}
		checked = checked || o.KeepChecked && before != nil && before.Checked
		now := "payloads of " + c.Type + " are not checked"
		switch {
		case checked:
			now = "payloads of " + c.Type + " must fit the schema"
		case before != nil && before.Checked:
			now += " any more"
		}
		return c.print(s, checked, before, now)
	})
}

type typesListCmd struct{ typesFlags }

func (c *typesListCmd) Run(s *session) error {
	return c.with(s, func(store *contracts.Store) error {
		list, err := store.List(s.ctx)
		if err != nil {
			return err
		}
		var rows []table.Row
		for _, t := range list {
			rows = append(rows, table.Row{clip(t.Type, 60), t.Checked, t.CreatedAt.Format(time.RFC3339), t.UpdatedAt.Format(time.RFC3339), clip(t.Description, 60)})
		}
		return answerRows(s.stdout, c.JSON, append([]contracts.Contract{}, list...), table.Row{"type", "checked", "since", "changed", "description"}, rows)
	})
}

type typesShowCmd struct {
	typesFlags
	Type string `arg:"" name:"type" help:"The event type."`
}

func (c *typesShowCmd) Run(s *session) error {
	return c.with(s, func(store *contracts.Store) error {
		t, err := store.Find(s.ctx, c.Type)
		if err != nil {
			return err
		}
		var schema bytes.Buffer
		if err := json.Indent(&schema, t.Schema, "", "  "); err != nil {
			return err
		}
		checked := "not checked"
		if t.Checked {
			checked = "checked"
		}
		text := fmt.Sprintf("%s: %s, since %s, changed %s\n", printable(t.Type), checked, t.CreatedAt.Format(time.RFC3339), t.UpdatedAt.Format(time.RFC3339))
		if t.Description != "" {
			text += printable(t.Description) + "\n"
		}
		return answer(s.stdout, c.JSON, t, text+schema.String())
	})
}

type typesDropCmd struct{ typeFlags }

func (c *typesDropCmd) Run(s *session) error {
	return c.with(s, func(store *contracts.Store) error {
		before, err := store.Drop(s.ctx, c.Type, c.options())
		if err != nil {
			return err
		}
		return c.print(s, false, before, c.Type+" is registered no more")
	})
}

// typesFile is the file that export writes and apply reads.
type typesFile struct{ Types map[string]typeEntry }

type typeEntry struct {
	Checked     bool
	Description string     `yaml:",omitempty"`
	JSONSchema  schemaText `yaml:"json_schema"`
}

// schemaText is written as the text of JSON, which keeps the digits of numbers, and read from YAML, too.
type schemaText string

func (t *schemaText) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode((*string)(t))
	}
	var value any
	asWritten(n, false)
	if err := n.Decode(&value); err != nil {
		return err
	}
	text, err := json.Marshal(value)
	*t = schemaText(numberAsWritten.ReplaceAll(text, []byte("$1")))
	return err
}

// numberAsWritten matches a number that asWritten kept from losing digits.
var numberAsWritten = regexp.MustCompile(`"\\u0000([^"]*)"`)

// asWritten makes scalars of YAML mean the same as in JSON: dates and keys are texts, numbers keep their digits.
func asWritten(n *yaml.Node, key bool) {
	switch tag := n.ShortTag(); {
	case n.Kind == yaml.ScalarNode && (key && tag != "!!merge" || tag == "!!timestamp"):
		n.Tag = "!!str"
	case n.Kind == yaml.ScalarNode && n.Style == 0 && tag != "!!bool" && tag != "!!null" && json.Valid([]byte(n.Value)):
		n.Tag, n.Value = "!!str", "\x00"+n.Value
	}
	for i, part := range n.Content {
		asWritten(part, n.Kind == yaml.MappingNode && i%2 == 0)
	}
}

type typesExportCmd struct{ databaseFlags }

func (c *typesExportCmd) Run(s *session) error {
	return (&typesFlags{databaseFlags: c.databaseFlags}).with(s, func(store *contracts.Store) error {
		list, err := store.List(s.ctx)
		if err != nil {
			return err
		}
		file := typesFile{map[string]typeEntry{}}
		for _, t := range list {
			var schema bytes.Buffer
			if err := json.Indent(&schema, t.Schema, "", "  "); err != nil {
				return err
			}
			file.Types[t.Type] = typeEntry{t.Checked, t.Description, schemaText(schema.String())}
		}
		return export(s, file)
	})
}

type typesApplyCmd struct {
	databaseFlags
	actorFlags
	applyFlags
}

func (c *typesApplyCmd) Help() string {
	return applyHelp("types", `  types:
    order.paid:
      checked: true             # without it not
      description: It was paid  # without it none
      json_schema: {required: [id]}

The schema may be a text, too. To drop a type or end its check needs --yes.`)
}

func (c *typesApplyCmd) Run(s *session) error {
	var file typesFile
	if err := readEntries(c.File, &file); err != nil {
		return err
	}
	if file.Types == nil {
		return fmt.Errorf("%w: FILE: %s must have types:, and below that the types by their names, or {}", errRefused, c.File)
	}
	var list []contracts.Contract
	for _, name := range slices.Sorted(maps.Keys(file.Types)) {
		t := file.Types[name]
		list = append(list, contracts.Contract{Type: name, Schema: []byte(t.JSONSchema), Checked: t.Checked, Description: t.Description})
	}
	return (&typesFlags{databaseFlags: c.databaseFlags}).with(s, func(store *contracts.Store) error {
		changes, err := store.Apply(s.ctx, list, contracts.Options{Actor: c.actor(), Reason: c.Reason, DryRun: c.DryRun, Prune: c.Prune, Confirmed: c.Yes})
		var all []difference
		for _, one := range changes {
			all = append(all, typeDifference(one))
		}
		return c.tell(s, all, err)
	})
}

func typeDifference(c contracts.Correction) difference {
	switch {
	case c.Kept:
		return difference{Name: c.Before.Type, Action: capture.Kept}
	case c.After == nil:
		return difference{Name: c.Before.Type, Action: capture.Dropped}
	case c.Before == nil:
		return difference{Name: c.After.Type, Action: capture.Created}
	}
	d := difference{Name: c.After.Type, Action: capture.Changed}
	for _, one := range []capture.SettingChange{
		{Setting: "checked", Before: fmt.Sprint(c.Before.Checked), After: fmt.Sprint(c.After.Checked)},
		{Setting: "description", Before: c.Before.Description, After: c.After.Description},
		{Setting: "json_schema", Before: string(c.Before.Schema), After: string(c.After.Schema)},
	} {
		if one.Before != one.After {
			d.Settings = append(d.Settings, one)
		}
	}
	return d
}
