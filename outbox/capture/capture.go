package capture

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Capture says which changes of a table become events, and how.
type Capture struct {
	// Table is schema.name, or a name in schema public.
	Table string `json:"-"`
	// Key are the columns whose values name the row's stream; they may not be NULL. Defaults to the primary key.
	Key []string `json:"key"`
	// Columns are those that events have. Defaults to all but Exclude, and to what the table gets later.
	Columns []string `json:"columns,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// Operations are which of insert, update and delete are told. Defaults to all of them.
	Operations []string `json:"operations"`
	// Topic of the events. Defaults to the table's name without its schema.
	Topic string `json:"topic"`
	// Type is a template of the events' type, with {table} and {operation}: inserted, updated, deleted. Defaults to {table}.{operation}.
	Type string `json:"type"`
	// Old has updates tell the row as it was, too.
	Old bool `json:"old"`
}

// operations are what Operations may name, and how events call them.
var operations = map[string]string{"insert": "inserted", "update": "updated", "delete": "deleted"}

// Capture has the changes of a table append events from now on. What was there before is not told.
func (s *Store) Capture(ctx context.Context, c Capture, o Options) (Done, error) {
	var done Done
	err := s.transaction(ctx, o, func(tx pgx.Tx) error {
		t, err := s.find(ctx, tx, Captured, c.Table)
		if err != nil {
			return err
		}
		drop, err := s.free(ctx, tx, Captured, t, o)
		if err != nil {
			return err
		}
		if err := c.complete(t); err != nil {
			return err
		}
		list, err := making(Captured, t, c.events(), c.body(t, s.calls("bytes")), c.tells("delete"), c)
		if err != nil {
			return err
		}
		done = Done{Table: t.String(), SQL: slices.Concat(drop, list, o.published(t.name, "DROP"))}
		return s.execute(ctx, tx, done, o)
	})
	return done, err
}

// complete puts defaults in, and refuses what does not fit the table.
func (c *Capture) complete(t *table) error {
	if len(c.Key) == 0 {
		c.Key = t.primary()
	}
	if len(c.Key) == 0 {
		return refuse("--key: %s has no primary key; name the columns that tell its rows apart", t)
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
	if !plain(c.kind(t, "insert")) {
		return refuse("--type: must be 1 to 1024 bytes without control characters or spaces at its ends")
	}
	return nil
}

func (c *Capture) tells(operation string) bool { return slices.Contains(c.Operations, operation) }

// kind is the type of the events of an operation.
func (c *Capture) kind(t *table, operation string) string {
	return strings.NewReplacer("{table}", t.name.name, "{operation}", operations[operation]).Replace(c.Type)
}

// events are the trigger's. A key that is changed ends one row and begins another, also where updates are not told.
func (c *Capture) events() string {
	var list []string
	for _, name := range []string{"insert", "update", "delete"} {
		switch {
		case c.tells(name):
			list = append(list, strings.ToUpper(name))
		case name == "update":
			keys := make([]string, len(c.Key))
			for i, key := range c.Key {
				keys[i] = identifier(key)
			}
			list = append(list, "UPDATE OF "+strings.Join(keys, ", "))
		}
	}
	return strings.Join(list, " OR ")
}

// row is the text of a row's captured columns.
func (c *Capture) row(of string) string {
	test := ""
	switch {
	case len(c.Columns) > 0:
		test = "= ANY (ARRAY[" + literals(c.Columns) + "])"
	case len(c.Exclude) > 0:
		test = "<> ALL (ARRAY[" + literals(c.Exclude) + "])"
	default:
		return "row_to_json(" + of + ")::text"
	}
	return `'{' || coalesce((SELECT string_agg(to_json(c.key)::text || ':' || c.value::text, ',') FROM json_each(row_to_json(` + of + `)) AS c
                             WHERE c.key ` + test + `), '') || '}'`
}

// stream is the stream's id.
func (c *Capture) stream(t *table, of string) string {
	prefix := literal(t.String()+":") + " || "
	if len(c.Key) == 1 {
		return prefix + of + "." + identifier(c.Key[0]) + "::text"
	}
	values := make([]string, len(c.Key))
	for i, key := range c.Key {
		values[i] = of + "." + identifier(key)
	}
	return prefix + "json_build_array(" + strings.Join(values, ", ") + ")::text"
}

// body is that of the function.
func (c *Capture) body(t *table, calls string) string {
	tell := func(operation, stream, payload string) string {
		if !c.tells(operation) {
			return "NULL;"
		}
		return "PERFORM " + calls + arguments(parameters, map[string]string{
			"stream_id": stream, "type": literal(c.kind(t, operation)), "payload": "convert_to(" + payload + ", 'UTF8')", "topic": literal(c.Topic),
		}) + ";"
	}
	updated := `'{"new":' || new_row || '}'`
	if c.Old {
		updated = `'{"old":' || old_row || ',"new":' || new_row || '}'`
	}
	return `DECLARE
    old_stream text;
    new_stream text;
    old_row    text;
    new_row    text;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'TRUNCATE of % would tell nothing of its rows, which are captured', TG_RELID::regclass
            USING ERRCODE = '0A000', HINT = 'DELETE tells of each row; ` + "`postrider capture drop`" + ` ends the capture.';
    END IF;
    IF TG_OP <> 'INSERT' THEN
        old_stream := ` + c.stream(t, "OLD") + `;
        old_row := ` + c.row("OLD") + `;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        new_stream := ` + c.stream(t, "NEW") + `;
        new_row := ` + c.row("NEW") + `;
    END IF;
    IF TG_OP = 'UPDATE' AND old_stream = new_stream THEN
        IF old_row <> new_row THEN
            ` + tell("update", "new_stream", updated) + `
        END IF;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        ` + tell("delete", "old_stream", `'{"old":' || old_row || '}'`) + `
    END IF;
    IF TG_OP <> 'DELETE' THEN
        ` + tell("insert", "new_stream", `'{"new":' || new_row || '}'`) + `
    END IF;
    RETURN NULL;
END
`
}
