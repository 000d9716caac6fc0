package capture

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// Capture describes the events of a table's changes.
type Capture struct {
	// Table is schema.name, or a name in schema public.
	Table string `json:"-" yaml:"-"`
	// Key are the columns whose values name the row's stream; they may not be NULL. Defaults to the primary key.
	Key []string `json:"key"`
	// Columns are those of events. Defaults to all but Exclude, with later ones.
	Columns []string `json:"columns,omitempty" yaml:",omitempty"`
	Exclude []string `json:"exclude,omitempty" yaml:",omitempty"`
	// Operations are the captured ones of insert, update and delete. Defaults to all of them.
	Operations []string `json:"operations"`
	// Topic of the events. Defaults to the table's name without its schema.
	Topic string `json:"topic"`
	// Type is a template of the events' type, with {table} and {operation}: inserted, updated, deleted. Defaults to {table}.{operation}.
	Type string `json:"type"`
	// Old adds the row's former values to the events of updates.
	Old bool `json:"old"`
	// AllColumns and NoOld reset the choices of the replaced capture; other missing settings stay.
	AllColumns bool `json:"-" yaml:"-"`
	NoOld      bool `json:"-" yaml:"-"`
}

// placeholders matches the placeholders in a type's template.
var placeholders = regexp.MustCompile(`\{[^{}]*\}`)

// operations maps each operation to its name in events.
var operations = map[string]string{"insert": "inserted", "update": "updated", "delete": "deleted"}

// Capture makes the changes of a table append events from now on. Options.Backfill appends existing rows, too.
func (s *Store) Capture(ctx context.Context, c Capture, o Options) (Done, error) {
	var done Done
	given := o
	o.Replace = o.Replace || o.Backfill // it is there where a backfill was interrupted
	err := s.transaction(ctx, o, func(tx pgx.Tx) error {
		t, drop, err := s.place(ctx, tx, c.Table, o)
		if err != nil {
			return err
		}
		if done, err = s.planned(ctx, tx, &c, t, drop, true, given); err != nil {
			return err
		}
		if len(done.Changes) > 0 && !o.Confirmed && !o.DryRun {
			var list []string
			for _, c := range done.Changes {
				list = append(list, fmt.Sprintf("%s: %s -> %s", c.Setting, c.Before, c.After))
			}
			return refuse("--yes: nothing was changed; it confirms that of %s %s", t, strings.Join(list, "; "))
		}
		return s.execute(ctx, tx, done, o)
	})
	if err != nil || !o.Backfill || o.DryRun {
		return done, err
	}
	return done, s.backfill(ctx, c, o, &done)
}

// place returns the table of a capture, and the statements that drop the replaced trigger.
func (s *Store) place(ctx context.Context, tx pgx.Tx, asked string, o Options) (*table, []string, error) {
	t, err := s.find(ctx, tx, Captured, asked)
	if err != nil {
		return nil, nil, err
	}
	drop, err := s.free(ctx, tx, Captured, t, o)
	return t, drop, err
}

// planned returns the statements for a capture. A missing setting keeps its value where stays is set, else has its default.
func (s *Store) planned(ctx context.Context, tx pgx.Tx, c *Capture, t *table, drop []string, stays bool, given Options) (done Done, err error) {
	var before *Capture
	if t.before != nil {
		was, err := t.before.capture()
		if err != nil {
			return done, err
		}
		if before = &was; stays {
			c.takeFrom(was)
		}
	}
	if err := c.complete(t); err != nil {
		return done, err
	}
	if err := s.sql.Late.Row(ctx, tx, pg.Args{"table": t.oid, "numbers": t.listed(c.Key)}).Scan(&t.late); err != nil {
		return done, err
	}
	if err := s.begins(ctx, tx, t, *c, before, given); err != nil {
		return done, err
	}
	list, err := making(Captured, t, c.events(), c.body(t, s.sql.Body.Text, s.calls("bytes")), c.tells("delete"), *c)
	done = Done{Table: t.String(), Action: Created, SQL: slices.Concat(drop, list)}
	if before != nil {
		done.Action, done.Changes = Changed, differences(*before, *c)
	}
	return done, err
}

// takeFrom fills missing settings from the replaced capture.
func (c *Capture) takeFrom(before Capture) {
	if len(c.Key) == 0 {
		c.Key = before.Key
	}
	switch {
	case c.AllColumns:
		c.Columns, c.Exclude = nil, nil
	case len(c.Columns) == 0 && len(c.Exclude) == 0:
		c.Columns, c.Exclude = before.Columns, before.Exclude
	}
	if len(c.Operations) == 0 {
		c.Operations = before.Operations
	}
	c.Topic, c.Type = cmp.Or(c.Topic, before.Topic), cmp.Or(c.Type, before.Type)
	c.Old = c.Old || before.Old && !c.NoOld
}

// SettingChange is a setting that becomes another.
type SettingChange struct {
	Setting string `json:"setting"`
	Before  string `json:"before"`
	After   string `json:"after"`
}

// differences returns the settings that differ.
func differences(before, after Capture) (list []SettingChange) {
	texts := func(names []string, none string) string {
		if len(names) == 0 {
			return none
		}
		return strings.Join(names, ",")
	}
	for _, one := range []SettingChange{
		{"key", texts(before.Key, "none"), texts(after.Key, "none")},
		{"columns", texts(before.Columns, "all"), texts(after.Columns, "all")},
		{"exclude", texts(before.Exclude, "none"), texts(after.Exclude, "none")},
		{"operations", texts(before.Operations, "none"), texts(after.Operations, "none")},
		{"topic", before.Topic, after.Topic},
		{"type", before.Type, after.Type},
		{"old", fmt.Sprint(before.Old), fmt.Sprint(after.Old)},
	} {
		if one.Before != one.After {
			list = append(list, one)
		}
	}
	return list
}

// complete fills in defaults, and refuses settings that do not fit the table.
func (c *Capture) complete(t *table) error {
	if len(c.Key) == 0 {
		c.Key = t.primary()
	}
	if len(c.Key) == 0 || len(c.Key) > 100 { // the most that PostgreSQL passes to a function
		return refuse("--key: name the columns that tell the rows of %s apart, 100 at most: it has no primary key, or %d were named", t, len(c.Key))
	}
	for _, name := range c.Key {
		column, err := t.must("--key", name)
		if err != nil {
			return err
		}
		if !column.NotNull {
			return refuse("--key: column %s of %s may be NULL, which names no stream: ALTER TABLE %s ALTER COLUMN %s SET NOT NULL, or choose another",
				name, t, t.quoted(), identifier(name))
		}
	}
	if len(c.Columns) > 0 && len(c.Exclude) > 0 {
		return refuse("--exclude: give it or --columns, not both")
	}
	for _, one := range []struct {
		flag  string
		names []string
	}{{"--columns", c.Columns}, {"--exclude", c.Exclude}} {
		for _, name := range one.names {
			if _, err := t.must(one.flag, name); err != nil {
				return err
			}
		}
	}
	if len(c.Operations) == 0 {
		c.Operations = []string{"insert", "update", "delete"}
	}
	for _, name := range c.Operations {
		if operations[name] == "" {
			return refuse("--operations: %q is none of insert, update, delete", name)
		}
	}
	c.Topic = cmp.Or(c.Topic, t.name.name)
	if !plain(c.Topic) {
		return refuse("--topic: must be 1 to 1024 bytes without control characters or spaces at its ends")
	}
	c.Type = cmp.Or(c.Type, "{table}.{operation}")
	for _, one := range placeholders.FindAllString(c.Type, -1) {
		if one != "{table}" && one != "{operation}" {
			return refuse("--type: %s stands for nothing; {table} and {operation} do", one)
		}
	}
	if !plain(c.kind(t, "insert")) {
		return refuse("--type: must be 1 to 1024 bytes without control characters or spaces at its ends")
	}
	return nil
}

func (c *Capture) tells(operation string) bool { return slices.Contains(c.Operations, operation) }

// kind returns the type of an operation's events.
func (c *Capture) kind(t *table, operation string) string {
	return strings.NewReplacer("{table}", t.name.name, "{operation}", cmp.Or(operations[operation], operation)).Replace(c.Type)
}
