package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// Trigger is an existing one, or the function of a dropped one.
type Trigger struct {
	Purpose Purpose
	// Table and Function are names with their schemas. Owner is the role that the function runs as.
	Table, Function, Owner string
	// Enabled is false while something disables it, for all sessions.
	Enabled bool
	// Settings are a Capture or an Adoption as JSON, with the columns' current names; empty where the function's comment was changed.
	Settings json.RawMessage
	// Flaws are the faults that lose changes, or fail writes.
	Flaws []Flaw

	table, function name
	oid             uint32 // of the table, 0 for none
	columns         map[int16]string
	comment         string
	enabled         string // pg_trigger.tgenabled
	note            note
	keys            int // number of the key's columns
}

// List returns the triggers that append to the outbox, by table.
func (s *Store) List(ctx context.Context) ([]Trigger, error) { return s.list(ctx, s.db) }

// List is Store.List of the outbox in that schema, for readers.
func List(ctx context.Context, db pg.Querier, schema string) ([]Trigger, error) {
	s, err := New(nil, schema)
	if err != nil {
		return nil, err
	}
	return s.list(ctx, db)
}

func (s *Store) list(ctx context.Context, db pg.Querier) ([]Trigger, error) {
	names := []string{Captured.trigger(), Adopted.trigger()}
	args := pg.Args{"schema": s.schema, "triggers": names, "calls": s.calls("")}
	list, err := pg.Collect(ctx, db, s.sql.Installed, args, func(row pgx.CollectableRow) (t Trigger, err error) {
		var f facts
		var trigger, comment, columns string
		err = row.Scan(&t.function.schema, &t.function.name, &t.Owner, &comment, &trigger, &t.oid, &t.table.schema, &t.table.name, &f.enabled,
			&f.owner, &columns, &f.children, &f.partitions, &f.truncate, &f.may, &f.published)
		if err != nil {
			return t, err
		}
		t.Purpose = Captured
		if trigger == Adopted.trigger() || trigger == "" && strings.HasPrefix(t.function.name, "postrider_"+string(Adopted)) {
			t.Purpose = Adopted
		}
		if err := json.Unmarshal([]byte(columns), &t.columns); err != nil {
			return t, err
		}
		t.comment = comment
		t.readComment(comment)
		t.Table, t.Function, t.enabled, t.Enabled = t.table.String(), t.function.String(), f.enabled, fires(f.enabled)
		if t.oid == 0 {
			t.Table = t.note.Table
		}
		t.Flaws = t.faults(f)
		return t, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list triggers: %w", err)
	}
	return list, nil
}

// readComment finds settings and note in a function's comment, which others may have changed.
func (t *Trigger) readComment(comment string) {
	all := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(comment), &all) != nil || json.Unmarshal([]byte(comment), &t.note) != nil {
		return
	}
	for _, ours := range []string{"table", "relation", "numbers", "used"} {
		delete(all, ours)
	}
	for _, field := range []string{"key", "columns", "exclude"} {
		var names, now []string
		if json.Unmarshal(all[field], &names) != nil {
			continue
		}
		for _, one := range names {
			if called := t.nowCalled(one); called != "" {
				now = append(now, called)
			}
		}
		if field == "key" {
			t.keys = len(names)
		}
		all[field], _ = json.Marshal(now)
	}
	t.Settings, _ = json.Marshal(all)
}

// moved reports whether the table is another one than the function's: a dump was restored.
func (t *Trigger) moved() bool { return t.oid != 0 && t.oid != t.note.Relation }

// nowCalled returns the current name of a column that had this one when the trigger was made, "" for a dropped one.
func (t *Trigger) nowCalled(column string) string {
	number, known := t.note.Numbers[column]
	if !known || t.moved() || t.oid == 0 {
		return column
	}
	return t.columns[number]
}

// capture returns the settings of a captured table.
func (t *Trigger) capture() (c Capture, err error) {
	if t.Settings == nil {
		return c, refuse("--replace: the settings of %s are not to be read, for the comment of %s was changed; drop it, and create it anew", t.Table, t.Function)
	}
	err = json.Unmarshal(t.Settings, &c)
	return c, err
}

// installed returns the trigger of a table, nil for none.
func (s *Store) installed(ctx context.Context, db pg.Querier, kind Purpose, asked string) (*Trigger, error) {
	list, err := s.list(ctx, db)
	if err != nil {
		return nil, err
	}
	names := written(asked)
	list = slices.DeleteFunc(list, func(t Trigger) bool {
		return t.Purpose != kind || !slices.ContainsFunc(names, func(n name) bool { return n == t.table || t.oid == 0 && n.String() == t.Table })
	})
	switch len(list) {
	case 0:
		return nil, nil
	case 1:
		return &list[0], nil
	}
	found := map[string]bool{}
	for _, t := range list {
		found[t.table.quoted()] = true
	}
	return nil, ambiguous(asked, slices.Sorted(maps.Keys(found)))
}

// dropped returns the statements that end it.
func (t *Trigger) dropped() (list []string) {
	if t.oid != 0 {
		list = []string{
			"DROP TRIGGER IF EXISTS " + identifier(t.Purpose.truncates()) + " ON " + t.table.quoted(),
			"DROP TRIGGER " + identifier(t.Purpose.trigger()) + " ON " + t.table.quoted(),
		}
	}
	return append(list, "DROP FUNCTION "+t.function.quoted()+"()")
}
