package capture

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// table is a table of an application.
type table struct {
	name
	owner   string // as SQL writes it
	columns []column
	// readable reports whether this session may read events; taken whether the trigger exists.
	readable, taken bool
	oid             uint32
	unique          []string // columns that no two rows have alike
	outbox          string   // the schema of the outbox
	guard, revoked  string   // begin the function, and leave it to its owner
	// left is the publication that the table left for the trigger, joins reports whether it is in there still.
	left  *membership
	joins bool
	late  bool     // rows may have one key until a statement or a transaction ends
	used  []string // columns of an adoption
	// filled is the backfill's progress.
	filled *backfilled
	// before is the replaced trigger.
	before *Trigger
}

type column struct {
	Name, Type string
	NotNull    bool
	// Key is its place in the primary key, from 1; 0 for none.
	Key int
	// Drawn reports whether its values come from a sequence.
	Drawn bool
	// Number is its place in the table, whatever its name.
	Number int16
	TypeID uint32
	// Collation of its values, 0 for none.
	Collation uint32
	// Operators is the schema of the operators of the primary key.
	Operators string
	// part is the key of a JSON column whose value is meant, "" for the column.
	part string
}

// find reads a table's facts, and refuses one that cannot have the trigger.
func (s *Store) find(ctx context.Context, tx pgx.Tx, kind Purpose, asked string) (*table, error) {
	t := &table{outbox: s.schema, guard: s.sql.Guard.Text, revoked: s.sql.Revoked.Text}
	var fit, mine, producer, parent, own bool
	schemas, names := apart(written(asked))
	rows, err := s.sql.Find.Rows(ctx, tx, pg.Args{"schema": s.schema, "schemas": schemas, "names": names, "trigger": kind.trigger()})
	if err != nil {
		return nil, fmt.Errorf("look for table %s: %w", asked, err)
	}
	var found []string
	_, err = pgx.ForEachRow(rows, []any{&t.oid, &t.schema, &t.name.name, &t.owner, &fit, &mine, &producer, &t.readable, &parent, &own, &t.taken}, func() error {
		found = append(found, t.quoted())
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("look for table %s: %w", asked, err)
	case len(found) == 0:
		return nil, refuse("--table: there is no %s in this database, or no outbox in schema %s (--schema); a table is named schema.name, in the case that it has", asked, s.schema)
	case len(found) > 1:
		return nil, ambiguous(asked, found)
	case !fit:
		return nil, refuse("--table: %s is no table with rows of its own; name the table that they come from", t)
	case own:
		return nil, refuse("--table: %s belongs to the outbox or to an inbox: its events would append for ever", t)
	case parent:
		return nil, refuse("--table: other tables inherit from %s, and its triggers do not see their rows; choose each of them, or make it a partitioned table", t)
	case !mine:
		return nil, refuse("--table: %s is owned by %s: let that role run this, or a superuser", t, t.owner)
	case !producer && kind == Captured:
		schema := identifier(s.schema)
		return nil, refuse("--table: the trigger of %s runs as its owner, who may not append: GRANT USAGE ON SCHEMA %s TO %s; GRANT EXECUTE ON FUNCTION %s.outbox_append_bytes TO %[3]s",
			t, schema, t.owner, schema)
	}
	t.columns, err = pg.Collect(ctx, tx, s.sql.Columns, pg.Args{"table": t.oid}, pgx.RowToStructByPos[column])
	if err != nil {
		return nil, fmt.Errorf("columns of %s: %w", t, err)
	}
	return t, nil
}

// apart returns the names as SQL has them.
func apart(list []name) (schemas, names []string) {
	for _, n := range list {
		schemas, names = append(schemas, n.schema), append(names, n.name)
	}
	return schemas, names
}

func ambiguous(asked string, found []string) error {
	return refuse("--table: %s may be %s: say which, with its quotes", asked, strings.Join(found, " or "))
}

func (t *table) column(name string) (column, bool) {
	at := slices.IndexFunc(t.columns, func(c column) bool { return c.Name == name })
	if at < 0 {
		return column{}, false
	}
	return t.columns[at], true
}

// must refuses a name that is no column.
func (t *table) must(flag, name string) (column, error) {
	c, found := t.column(name)
	if !found {
		var all []string
		for _, one := range t.columns {
			all = append(all, one.Name)
		}
		return c, refuse("%s: %s has no column %s; it has %s", flag, t, name, strings.Join(all, ", "))
	}
	return c, nil
}

// source returns a column, or with COLUMN.KEY a JSON column's value under a key.
func (t *table) source(flag, name string) (column, error) {
	whole, part, _ := strings.Cut(name, ".")
	c, found := t.column(whole)
	if _, itself := t.column(name); itself || !found || part == "" || !strings.HasPrefix(c.Type, "json") {
		return t.must(flag, name)
	}
	c.part, c.Type = part, "text"
	return c, nil
}

// of returns the column's value in a row.
func (c column) of(row string) string {
	if c.part != "" {
		return "(" + row + "." + identifier(c.Name) + " ->> " + literal(c.part) + ")"
	}
	return row + "." + identifier(c.Name)
}

// distinct reports whether no two rows have the column's value.
func (t *table) distinct(c column) bool { return c.part == "" && slices.Contains(t.unique, c.Name) }

// primary returns the columns of the primary key in its order.
func (t *table) primary() (names []string) {
	var keys []column
	for _, c := range t.columns {
		if c.Key > 0 {
			keys = append(keys, c)
		}
	}
	slices.SortFunc(keys, func(a, b column) int { return a.Key - b.Key })
	for _, c := range keys {
		names = append(names, c.Name)
	}
	return names
}

// free refuses a table with a trigger that shall stay, and returns the statements that drop a replaced one.
func (s *Store) free(ctx context.Context, tx pgx.Tx, kind Purpose, t *table, o Options) ([]string, error) {
	before, err := s.installed(ctx, tx, kind, t.quoted())
	switch {
	case err != nil:
		return nil, err
	case before == nil && t.taken:
		return nil, refuse("--table: %s has the trigger already, of another outbox or as a partition; end that first", t)
	case before != nil && !o.Replace:
		return nil, refuse("--table: %s has the trigger already; --replace changes it, `postrider %s drop` ends it", t, kind)
	}
	t.before = before
	if err := s.leave(ctx, tx, t, o.Publication); err != nil || before == nil {
		return nil, err
	}
	return before.dropped(), nil
}
