package capture

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/headername"
)

// Adoption says how the rows of an outbox table become events.
type Adoption struct {
	// Table is schema.name, or a name in schema public.
	Table string `json:"-"`
	// Preset names a shape that is known: debezium, watermill. What else is given goes before it.
	Preset string `json:"preset,omitempty"`
	// Map names for each column the field that it becomes, several with + between. Fields names them. COLUMN.KEY is what a JSON column has
	// under a key.
	Map map[string]string `json:"map"`
	// Topic, Stream and Type are what all events have where no column says so.
	Topic  string `json:"topic,omitempty"`
	Stream string `json:"stream,omitempty"`
	Type   string `json:"type,omitempty"`
	// Qualify puts the topic before the stream's id, "Order:17", for ids that are unique within a topic alone. Defaults to what the preset says.
	Qualify *bool `json:"qualify,omitempty"`
	// Order are the columns by which rows that wait are imported. Defaults to a column with a sequence, else one named created_at.
	Order []string `json:"-"`
	// Where names columns with the values that rows must have, several with + between. Other rows are left alone.
	Where map[string]string `json:"where,omitempty"`
	// Pending is a column that is NULL or false in rows that wait. Defaults to none: all rows wait.
	Pending string `json:"-"`
	// NoImport leaves the rows that are there alone.
	NoImport bool `json:"-"`
	// Delete removes a row when its event is appended.
	Delete bool `json:"delete,omitempty"`
}

// Fields are what a column can become.
var Fields = []string{"event_id", "stream_id", "topic", "type", "payload", "metadata", "headers", "tenant_id", "partition_key", "occurred_at"}

// presets are the shapes of tables that are known.
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

// Presets are the names of the presets.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// shape is an adoption that fits its table: expressions of a row by field.
type shape struct {
	of     func(row string) map[string]string
	chosen func(row string) string // which rows are meant, "" for all
	order  string
	test   string // of rows that wait
}

// Adopt imports what waits in an outbox table and has its rows append events from then on, in one transaction that keeps writers out.
func (s *Store) Adopt(ctx context.Context, a Adoption, o Options) (Done, error) {
	var done Done
	err := s.transaction(ctx, o, func(tx pgx.Tx) error {
		t, err := s.find(ctx, tx, Adopted, a.Table)
		if err != nil {
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
		if !a.NoImport && !t.readable {
			return refuse("--no-import: without it this role must read events, so that no row is appended twice: GRANT SELECT ON %[1]s.events, %[1]s.outbox_stream_heads, or run it as the outbox's owner", identifier(s.schema))
		}
		list, err := making(Adopted, t, "INSERT", a.body(t, s.calls(), shape), false, a)
		if err != nil {
			return err
		}
		// CREATE TRIGGER keeps writers out until the commit.
		done = Done{Table: t.String(), SQL: slices.Concat(drop, list, o.published(t.name, "DROP"))}
		if err := s.execute(ctx, tx, done, o); err != nil {
			return err
		}
		if a.NoImport {
			return nil
		}
		return s.bring(ctx, tx, t, shape, a.Delete, o, &done)
	})
	return done, err
}

// withPreset puts what the preset says where nothing else does.
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

// fit puts defaults in, and refuses what does not fit the table.
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
	s.of = func(row string) map[string]string { return a.expressions(t, columns, row) }
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

// expressions are what a row's event consists of.
func (a *Adoption) expressions(t *table, columns map[string]column, row string) map[string]string {
	found := map[string]string{}
	for field, c := range columns {
		value := c.of(row)
		switch {
		case field == "event_id" && c.Type != "uuid":
			value = "CASE WHEN " + value + "::text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN " + value + "::text::uuid" +
				" ELSE md5(" + literal(t.String()+":") + " || " + value + "::text)::uuid END"
		case field == "payload" && c.Type == "bytea":
			value = "coalesce(" + value + ", ''::bytea)"
		case field == "payload":
			value = "coalesce(convert_to(" + value + "::text, 'UTF8'), ''::bytea)"
		case field == "metadata":
			value += "::jsonb"
		case field == "headers":
			field, value = "metadata", "CASE WHEN "+value+" IS NOT NULL THEN jsonb_build_object('headers', "+sendable(value)+") END"
		case field == "occurred_at" && c.Type == "timestamp without time zone":
			value = within(value + " AT TIME ZONE 'UTC'")
		case field == "occurred_at":
			value = within(value)
		case field != "event_id":
			value += "::text"
		}
		found[field] = value
	}
	for field, all := range map[string]string{"stream_id": a.Stream, "type": a.Type, "topic": cmp.Or(a.Topic, "default")} {
		if found[field] == "" {
			found[field] = literal(all)
		}
	}
	if a.Qualify != nil && *a.Qualify {
		found["stream_id"] = found["topic"] + " || ':' || " + found["stream_id"]
	}
	return found
}

// within is a time that an event may have: what is beyond its years becomes the nearest of them, and breaks no statement of the application.
func within(value string) string {
	return "CASE WHEN " + value + " IS NOT NULL THEN greatest(least(" + value +
		", timestamptz '9999-12-31 23:59:59.999999+00'), timestamptz '0001-01-01 00:00:00+00') END"
}

// sendable are headers without those that are not a producer's (internal/headername).
func sendable(value string) string {
	return "coalesce((SELECT jsonb_object_agg(h.key, h.value) FROM jsonb_each(" + value + "::jsonb) AS h WHERE lower(h.key) !~ '" +
		headername.Pattern + "'), '{}')"
}

// chosen is the test of Where, of a row.
func (a *Adoption) chosen(t *table) (func(row string) string, error) {
	var columns []column
	for _, name := range slices.Sorted(maps.Keys(a.Where)) {
		c, err := t.source("--where", name)
		if err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	return func(row string) string {
		var tests []string
		for i, name := range slices.Sorted(maps.Keys(a.Where)) {
			tests = append(tests, columns[i].of(row)+"::text IN ("+literals(strings.Split(a.Where[name], "+"))+")")
		}
		return strings.Join(tests, " AND ")
	}, nil
}

// body is that of the function.
func (a *Adoption) body(t *table, calls string, s shape) string {
	body := "BEGIN\n    PERFORM " + calls + arguments(s.of("NEW")) + ";\n"
	if a.Delete {
		var tests []string
		for _, key := range t.primary() {
			tests = append(tests, "t."+identifier(key)+" = NEW."+identifier(key))
		}
		body += "    DELETE FROM " + t.quoted() + " AS t WHERE " + strings.Join(tests, " AND ") + ";\n"
	}
	if test := s.chosen("NEW"); test != "" {
		body = strings.Replace(body, "BEGIN\n", "BEGIN\n    IF ("+test+") IS NOT TRUE THEN\n        RETURN NULL;\n    END IF;\n", 1)
	}
	return body + "    RETURN NULL;\nEND\n"
}
