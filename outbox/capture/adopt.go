package capture

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// Adoption describes the events of an outbox table's rows.
type Adoption struct {
	// Table is schema.name, or a name in schema public.
	Table string `json:"-"`
	// Preset names a known shape: debezium, watermill. Other settings go before it.
	Preset string `json:"preset,omitempty"`
	// Map names the field of each column, several with + between; Fields lists them. COLUMN.KEY is the value of a JSON column under a key.
	Map map[string]string `json:"map"`
	// Topic, Stream and Type are defaults for events whose column is missing or empty. Without them a writer's row goes by the table's name,
	// in topic default; a waiting row is refused.
	Topic  string `json:"topic,omitempty"`
	Stream string `json:"stream,omitempty"`
	Type   string `json:"type,omitempty"`
	// Qualify puts the topic before the stream's id, "Order:17", for ids that are unique within a topic alone. Defaults to the preset's.
	Qualify *bool `json:"qualify,omitempty"`
	// Order are the columns by which waiting rows are imported. Defaults to a column with a sequence, else one named created_at.
	Order []string `json:"-"`
	// Where names columns with the required values of rows, several with + between. Other rows are left alone.
	Where map[string]string `json:"where,omitempty"`
	// Pending is a column that is NULL or false in waiting rows. Defaults to none: all rows wait.
	Pending string `json:"-"`
	// NoImport leaves the existing rows alone.
	NoImport bool `json:"-"`
	// Anew makes events of waiting rows despite an event of their id with another content, or of another source with their uuid and
	// content. Without it they are refused: nobody can know whether they were published.
	Anew bool `json:"-"`
	// Delete removes a row when its event is appended.
	Delete bool `json:"delete,omitempty"`
	// Source is the table's name at its first adoption; its events' ids are made from it.
	Source string `json:"source,omitempty"`

	unbroken bool // the replaced trigger saw each chosen row
}

// Fields lists the fields of a column.
var Fields = []string{"event_id", "stream_id", "topic", "type", "payload", "metadata", "headers", "tenant_id", "partition_key", "occurred_at"}

// presets are the shapes of known tables.
var presets = map[string]Adoption{
	"debezium": {
		Map:     map[string]string{"id": "event_id", "aggregatetype": "topic", "aggregateid": "stream_id", "type": "type", "payload": "payload"},
		Qualify: new(true),
	},
	"watermill": {
		Map:  map[string]string{"uuid": "event_id", "payload": "payload", "metadata": "headers", "created_at": "occurred_at"},
		Type: "message", Order: []string{"offset"},
	},
}

// Presets returns the names of the presets.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// shape is an adoption that fits its table: expressions of a row by field.
type shape struct {
	columns map[string]column         // by field
	of      func(value values) fields // but the payload
	chosen  func(value values) string // the condition of the chosen rows, "" for all
	order   string
	test    string // of waiting rows
	unread  string // " OR …": the condition of rows whose JSON no text can hold
}

// values are expressions of columns in a row, fields those of its event.
type (
	values func(column) string
	fields map[string]string
)

// Adopt imports the waiting rows of an outbox table and makes its rows append events from then on, in one transaction that keeps writers out.
func (s *Store) Adopt(ctx context.Context, a Adoption, o Options) (Done, error) {
	var done Done
	err := s.transaction(ctx, o, func(tx pgx.Tx) error {
		t, err := s.find(ctx, tx, Adopted, a.Table)
		if err != nil {
			return err
		}
		if t.unique, err = pg.Collect(ctx, tx, s.sql.Unique, pg.Args{"table": t.oid}, pgx.RowTo[string]); err != nil {
			return err
		}
		drop, err := s.free(ctx, tx, Adopted, t, o)
		if err != nil {
			return err
		}
		shape, err := a.fit(t)
		if err != nil {
			return err
		}
		if err := s.mayAdopt(ctx, tx, t, a.NoImport); err != nil {
			return err
		}
		if err := s.resume(ctx, tx, t, &a, drop != nil); err != nil {
			return err
		}
		list, err := making(Adopted, t, "INSERT", a.body(t, s.calls("adopted"), shape), false, a)
		if err != nil {
			return err
		}
		// CREATE TRIGGER keeps writers out until the commit.
		done = Done{Table: t.String(), SQL: slices.Concat(drop, list)}
		if err := s.execute(ctx, tx, done, o); err != nil {
			return err
		}
		if a.NoImport {
			return nil
		}
		return s.bring(ctx, tx, t, a, shape, o, &done)
	})
	return done, err
}

// withPreset fills empty settings from the preset.
func (a *Adoption) withPreset(t *table) error {
	if a.Preset == "" {
		return nil
	}
	p, found := presets[a.Preset]
	if !found {
		return refuse("--preset: %q is none of %s", a.Preset, strings.Join(Presets(), ", "))
	}
	given := map[string]bool{}
	for _, fields := range a.Map {
		for _, field := range strings.Split(fields, "+") {
			given[field] = true
		}
	}
	merged := maps.Clone(a.Map)
	if merged == nil {
		merged = map[string]string{}
	}
	for column, field := range p.Map {
		if !given[field] {
			merged[column] = strings.TrimPrefix(merged[column]+"+"+field, "+")
		}
	}
	a.Map, a.Type = merged, cmp.Or(a.Type, p.Type)
	if a.Qualify == nil {
		a.Qualify = p.Qualify
	}
	if len(a.Order) == 0 {
		a.Order = p.Order
	}
	if topic, is := strings.CutPrefix(t.name.name, "watermill_"); is && a.Preset == "watermill" { // one table for each topic
		a.Topic = cmp.Or(a.Topic, topic)
		a.Stream = cmp.Or(a.Stream, topic)
	}
	return nil
}

// fit fills in defaults, and refuses settings that do not fit the table.
func (a *Adoption) fit(t *table) (s shape, err error) {
	if err := a.withPreset(t); err != nil {
		return s, err
	}
	columns := map[string]column{} // by field
	for _, name := range slices.Sorted(maps.Keys(a.Map)) {
		column, err := t.source("--map", name)
		if err != nil {
			return s, err
		}
		for _, field := range strings.Split(a.Map[name], "+") {
			if !slices.Contains(Fields, field) {
				return s, refuse("--map: %s=%s: an event has no field %s; it has %s", name, a.Map[name], field, strings.Join(Fields, ", "))
			}
			if _, twice := columns[field]; twice {
				return s, refuse("--map: two columns become %s; choose one", field)
			}
			columns[field] = column
		}
	}
	for _, one := range [][3]string{{"event_id"}, {"payload"}, {"stream_id", a.Stream, "--stream"}, {"type", a.Type, "--type"}} {
		if _, found := columns[one[0]]; found || one[1] != "" {
			continue
		}
		cure := "--map COLUMN=" + one[0]
		if one[2] != "" {
			cure += ", or " + one[2] + " for all rows"
		}
		return s, refuse("--map: no column becomes %s: say %s", one[0], cure)
	}
	for flag, text := range map[string]string{"--topic": a.Topic, "--stream": a.Stream, "--type": a.Type} {
		if text != "" && !plain(text) {
			return s, refuse("%s: must be 1 to 1024 bytes without control characters or spaces at its ends", flag)
		}
	}
	if a.Delete && len(t.primary()) == 0 {
		return s, refuse("--delete: %s has no primary key to delete a row by", t)
	}
	if err := typed(t, columns); err != nil {
		return s, err
	}
	if id := columns["event_id"]; !t.distinct(id) && len(t.primary()) == 0 {
		return s, refuse("--map: two rows of %s may have one %s, and it has no primary key that tells them apart: ALTER TABLE %s ADD PRIMARY KEY (…), or ADD UNIQUE (%[2]s) to a column that is NOT NULL",
			t, id.Name, t.quoted())
	}
	s.columns = columns
	s.of = func(value values) fields { return a.expressions(t, columns, value) }
	if s.chosen, err = a.chosen(t); err != nil {
		return s, err
	}
	if err := a.waiting(t, &s); err != nil {
		return s, err
	}
	return s, nil
}

// typed refuses columns whose types their fields cannot have.
func typed(t *table, columns map[string]column) error {
	if _, both := columns["headers"]; both {
		if _, both := columns["metadata"]; both {
			return refuse("--map: headers are a part of metadata: choose one of the two")
		}
	}
	for field, fits := range map[string][]string{
		"occurred_at": {"timestamp with time zone", "timestamp without time zone"},
		"metadata":    {"jsonb", "json", "text", "character varying"},
		"headers":     {"jsonb", "json", "text", "character varying"},
	} {
		if c, found := columns[field]; found && !slices.Contains(fits, c.Type) {
			return refuse("--map: %s=%s: column %[1]s of %[3]s has type %[4]s; it must be %[5]s", c.Name, field, t, c.Type, strings.Join(fits, " or "))
		}
	}
	return nil
}

// isUUID is a POSIX pattern, asText a cast for comparison byte by byte, whatever collation a column has.
const isUUID, asText = "'^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'", `::text COLLATE "C"`

// expressions returns the parts of a row's event; NULL where the row has none.
func (a *Adoption) expressions(t *table, columns map[string]column, value values) fields {
	e := fields{
		"of_headers": "false", "own_id": "NULL", "metadata": "NULL", "tenant_id": "NULL", "partition_key": "NULL", "occurred_at": "NULL",
		"stream_id": or("NULL", a.Stream), "type": or("NULL", a.Type), "topic": or("NULL", cmp.Or(a.Topic, "default")),
	}
	for field, c := range columns {
		if field == "payload" {
			continue
		}
		v := value(c)
		switch field {
		case "event_id":
			e["own_id"] = "CASE WHEN " + v + asText + " ~* " + isUUID + " THEN " + v + "::text::uuid END"
			e["row_key"] = a.rowKey(t, c, value)
		case "headers":
			e["metadata"], e["of_headers"] = v+"::text", "true"
		case "occurred_at":
			e[field] = v
			if c.Type == "timestamp without time zone" {
				e[field] += " AT TIME ZONE 'UTC'"
			}
		case "stream_id":
			e[field] = or(v+asText, a.Stream)
		case "type":
			e[field] = or(v+asText, a.Type)
		case "topic":
			e[field] = or(v+asText, cmp.Or(a.Topic, "default"))
		default:
			e[field] = v + "::text"
		}
	}
	if a.Qualify != nil && *a.Qualify {
		e["stream_id"] = e["topic"] + " || ':' || " + e["stream_id"]
	}
	return e
}

// or returns a text, or the other where there is none; NULL if neither is there.
func or(value, other string) string {
	switch {
	case value == "NULL" && other != "":
		return literal(other) + "::text"
	case value == "NULL":
		return value
	case other != "":
		return "coalesce(nullif(" + value + ", ''), " + literal(other) + ")"
	}
	return "nullif(" + value + ", '')"
}

// rowKey identifies a row within its table.
func (a *Adoption) rowKey(t *table, id column, value values) string {
	if t.distinct(id) {
		return value(id) + "::text"
	}
	list := []string{value(id) + "::text"}
	for _, key := range t.primary() {
		c, _ := t.column(key)
		list = append(list, value(c)+"::text")
	}
	return "json_build_array(" + strings.Join(list, ", ") + ")::text"
}

// chosen returns the test of Where for a row.
func (a *Adoption) chosen(t *table) (func(value values) string, error) {
	var columns []column
	for _, name := range slices.Sorted(maps.Keys(a.Where)) {
		c, err := t.source("--where", name)
		if err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	return func(value values) string {
		var tests []string
		for i, name := range slices.Sorted(maps.Keys(a.Where)) {
			tests = append(tests, value(columns[i])+asText+" IN ("+literals(strings.Split(a.Where[name], "+"))+")")
		}
		return strings.Join(tests, " AND ")
	}, nil
}
