package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/pg"
)

// portion bounds the rows read and appended at once: above 64 a batch locks no stream.
const portion = 250

// waiting sets the selection of waiting rows, and their order.
func (a *Adoption) waiting(t *table, s *shape) error {
	s.test = "true"
	if a.Pending != "" {
		c, err := t.must("--pending", a.Pending)
		if err != nil {
			return err
		}
		s.test = "r." + identifier(c.Name) + " IS NULL"
		if c.Type == "boolean" {
			s.test = "r." + identifier(c.Name) + " IS NOT TRUE"
		}
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(a.Map)), slices.Sorted(maps.Keys(a.Where))) {
		if c, _ := t.source("--map", name); !strings.Contains(s.unread, c.orUnread()) {
			s.unread += c.orUnread()
		}
	}
	chosen := s.chosen(waits)
	if chosen != "" && s.unread != "" { // refuse rows of which nobody can tell
		chosen = "coalesce(" + chosen + ", false" + s.unread + ")"
	}
	if chosen != "" {
		s.test += " AND " + chosen
	}
	if a.NoImport {
		return nil
	}
	order := a.Order
	if at := slices.IndexFunc(t.columns, func(c column) bool { return c.Drawn }); at >= 0 && len(order) == 0 {
		order = []string{t.columns[at].Name}
	}
	if _, found := t.column("created_at"); len(order) == 0 && found {
		order = []string{"created_at"}
	}
	if len(order) == 0 {
		return refuse("--order: no column of %s tells the order of the rows that wait: name the columns that do, or ctid for the order in which they lie in the table, "+
			"which is that of their insertion as long as none was removed; --no-import leaves them", t)
	}
	var by []string
	for _, name := range order {
		if name != "ctid" {
			if _, err := t.must("--order", name); err != nil {
				return err
			}
		}
		by = append(by, "r."+identifier(name))
	}
	if !slices.Contains(order, "ctid") { // rows of one transaction have one created_at
		by = append(by, "r.tableoid", "r.ctid")
	}
	s.order = strings.Join(by, ", ")
	return nil
}

// waits returns the value of a column in a waiting row.
func waits(c column) string {
	if unread := c.orUnread(); unread != "" {
		return "(CASE WHEN false" + unread + " THEN NULL ELSE " + c.of("r") + " END)"
	}
	return c.of("r")
}

// orUnread tests whether a waiting row has JSON of which no key can be read: half a surrogate pair, or U+0000, which no text can hold.
func (c column) orUnread() string {
	if c.part == "" || c.TypeID != pgtype.JSONOID {
		return ""
	}
	c.part = ""
	return ` OR ` + pg.Unread(c.of("r"))
}

// appended are the arguments of outbox_append_adopted: those of a row.
var appended = withTypes(`source text, row_key text, own_id uuid, stream_id text, type text, topic text, payload bytea, metadata text,
	of_headers boolean, tenant_id text, partition_key text, occurred_at timestamptz`)

// waiting is a waiting row, in the order of appended.
type waiting struct {
	Source     string
	Row        string
	Own        *uuid.UUID
	Stream     *string
	Type       *string
	Topic      *string
	Payload    []byte
	Metadata   *string
	OfHeaders  bool
	Tenant     *string
	Key        *string
	OccurredAt pgtype.Timestamptz // an infinite one, too
	Unread     bool
}

// arriving is a waiting row, as an event.
type arriving struct {
	Stream     string
	Type       string
	Topic      string
	Metadata   *string
	Tenant     *string
	Key        *string
	OccurredAt *time.Time
	ID         uuid.UUID
	Next       uuid.UUID // in place of one that a row before has
	Told       bool
	Changed    bool   // an event of its key has another content
	Shared     bool   // an event of its uuid and content has another source
	Payload    []byte `db:"-"`
}

// selection returns the statement that reads the waiting rows.
func (s shape) selection(t *table, source string) string {
	e := s.of(waits)
	e["source"], e["payload"] = literal(source), inBytes(s.columns["payload"], waits(s.columns["payload"]))
	list := make([]string, len(appended))
	for i, one := range appended {
		list[i] = "(" + e[one[0]] + ")" + strings.Replace("::"+one[1], "::text", asText, 1) + " AS " + one[0]
	}
	return "SELECT " + strings.Join(list, ",\n       ") + ",\n       (false" + s.unread + ") IS TRUE AS unread,\n       row_number() OVER (ORDER BY " + s.order + ") AS place\n  FROM " +
		t.quoted() + " AS r\n WHERE " + s.test
}

// bring appends the waiting rows, portion by portion. The table is locked against writers.
func (s *Store) bring(ctx context.Context, tx pgx.Tx, t *table, a Adoption, shape shape, o Options, done *Done) error {
	for setting := range strings.Lines(fixed) { // a row has the text that its writer's would have had
		if _, err := tx.Exec(ctx, strings.Replace(setting, "SET ", "SET LOCAL ", 1)); err != nil {
			return err
		}
	}
	selected, counted := shape.selection(t, a.Source), "SELECT count(*) FROM "
	read, columns := selected, "unread boolean, place bigint"
	for _, one := range slices.Backward(appended) {
		columns = one[0] + " " + one[1] + ", " + columns
	}
	if o.DryRun {
		done.SQL = append(done.SQL, "-- the events of the rows that wait, in the order of place:\n"+selected)
		read, columns, counted = "SELECT count(*) FROM "+t.quoted()+" AS r WHERE "+shape.test, "waiting bigint", "SELECT waiting FROM "
	}
	view, err := s.contain(ctx, tx, t, "waiting", read, columns)
	if err != nil {
		return fmt.Errorf("read the rows of %s that wait: %w", t, err)
	}
	if err := tx.QueryRow(ctx, counted+view).Scan(&done.Waiting); err != nil || o.DryRun {
		return err
	}
	if err := s.appendAll(ctx, tx, t, view, a, o, done); err != nil {
		return err
	}
	if err := s.release(ctx, tx, t, "waiting"); err != nil || !a.Delete {
		return err
	}
	if err := s.remove(ctx, tx, t, shape.test); err != nil {
		return fmt.Errorf("remove the rows of %s that waited: %w", t, err)
	}
	return nil
}

// appendAll appends the rows of a view.
func (s *Store) appendAll(ctx context.Context, tx pgx.Tx, t *table, view string, a Adoption, o Options, done *Done) error {
	var fields []string
	for _, one := range appended {
		fields = append(fields, one[0])
	}
	if _, err := tx.Exec(ctx, "DECLARE waiting NO SCROLL CURSOR FOR SELECT "+strings.Join(fields, ", ")+", unread FROM "+view+" ORDER BY place"); err != nil {
		return fmt.Errorf("read the rows of %s that wait: %w", t, err)
	}
	for read := int64(0); read < done.Waiting; {
		rows, err := tx.Query(ctx, fmt.Sprintf("FETCH %d FROM waiting", portion))
		if err != nil {
			return fmt.Errorf("read the rows of %s that wait: %w", t, err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[waiting])
		if err != nil {
			return fmt.Errorf("read the rows of %s that wait, after %d: %w", t, read, err)
		}
		if len(list) == 0 {
			break
		}
		n, err := s.appendSome(ctx, tx, list, a)
		if err != nil {
			return fmt.Errorf("of the rows of %s that wait, one of number %d to %d cannot be imported, and nothing was changed: %w", t, read+1, read+int64(len(list)), err)
		}
		read += int64(len(list))
		done.Imported += n
		if o.Progress != nil {
			o.Progress(read, done.Waiting)
		}
	}
	_, err := tx.Exec(ctx, "CLOSE waiting")
	return err
}

// appendSome appends the rows that have no event yet.
func (s *Store) appendSome(ctx context.Context, tx pgx.Tx, rows []waiting, a Adoption) (int64, error) {
	for _, one := range rows {
		if one.Unread {
			return 0, refuse(`row %s has JSON of which no key can be read (it holds \u0000, or half a surrogate pair): mend the row, choose others by --where, or leave all that wait with --no-import`, one.Row)
		}
		if one.Stream == nil || one.Type == nil {
			return 0, refuse("row %s has no stream or no type: choose others by --where, or say by --stream and --type what such rows go by", one.Row)
		}
	}
	list, err := s.fit(ctx, tx, rows)
	if err != nil {
		return 0, err
	}
	taken := map[uuid.UUID]bool{}
	for i := range list {
		one := &list[i]
		one.Told = one.Told || one.Changed && a.unbroken
		if why := doubt(one); why != "" && !a.Anew {
			return 0, refuse("of row %s nobody can tell whether it was told: %s. Leave out what was told by --where, or all by --no-import; --anew appends such rows", rows[i].Row, why)
		}
		if taken[one.ID] {
			one.ID = one.Next
		}
		if taken[one.ID] {
			one.ID = uuid.New()
		}
		taken[one.ID] = !one.Told
	}
	list = slices.DeleteFunc(list, func(one arriving) bool { return one.Told })
	if len(list) == 0 {
		return 0, nil
	}
	versions, err := s.versions(ctx, tx, list)
	if err != nil {
		return 0, err
	}
	batch := pg.Args{
		"ids":      each(list, func(one arriving) uuid.UUID { return one.ID }),
		"streams":  each(list, func(one arriving) string { return one.Stream }),
		"versions": versions,
		"topics":   each(list, func(one arriving) string { return one.Topic }),
		"types":    each(list, func(one arriving) string { return one.Type }),
		"payloads": each(list, func(one arriving) []byte { return one.Payload }),
		"metadata": each(list, func(one arriving) *string { return one.Metadata }),
		"tenants":  each(list, func(one arriving) *string { return one.Tenant }),
		"keys":     each(list, func(one arriving) *string { return one.Key }),
		"occurred": each(list, func(one arriving) *time.Time { return one.OccurredAt }),
	}
	var appended int64
	err = s.sql.Append.Row(ctx, tx, batch).Scan(&appended)
	return appended, err
}

// doubt returns the reason why nobody can know whether a row had its event, "" where that is known.
func doubt(one *arriving) string {
	switch {
	case one.Told:
		return ""
	case one.Changed:
		return "an event of its id has another content: ids began again, or the row, the event or --map was changed"
	case one.Shared:
		return "an event of its uuid and content is of another table or producer"
	}
	return ""
}

// fit makes events of rows.
func (s *Store) fit(ctx context.Context, tx pgx.Tx, rows []waiting) ([]arriving, error) {
	list, err := pg.Collect(ctx, tx, s.sql.Fit, pg.Args{
		"source":   rows[0].Source,
		"headers":  rows[0].OfHeaders,
		"rows":     each(rows, func(one waiting) string { return one.Row }),
		"own":      each(rows, func(one waiting) *uuid.UUID { return one.Own }),
		"streams":  each(rows, func(one waiting) *string { return one.Stream }),
		"types":    each(rows, func(one waiting) *string { return one.Type }),
		"topics":   each(rows, func(one waiting) *string { return one.Topic }),
		"payloads": each(rows, func(one waiting) []byte { return one.Payload }),
		"metadata": each(rows, func(one waiting) *string { return one.Metadata }),
		"tenants":  each(rows, func(one waiting) *string { return one.Tenant }),
		"keys":     each(rows, func(one waiting) *string { return one.Key }),
		"occurred": each(rows, func(one waiting) pgtype.Timestamptz { return one.OccurredAt }),
	}, pgx.RowToStructByPos[arriving])
	for i := range list {
		list[i].Payload = rows[i].Payload
	}
	return list, err
}

// versions returns the streams' versions before each of the rows.
func (s *Store) versions(ctx context.Context, tx pgx.Tx, list []arriving) ([]int64, error) {
	streams := each(list, func(one arriving) string { return one.Stream })
	slices.Sort(streams)
	rows, err := s.sql.Versions.Rows(ctx, tx, pg.Args{"streams": slices.Compact(streams)})
	if err != nil {
		return nil, err
	}
	at := map[string]int64{}
	var stream string
	var version int64
	var dropped bool
	if _, err := pgx.ForEachRow(rows, []any{&stream, &version, &dropped}, func() error {
		if dropped {
			return forgotten(list, stream)
		}
		at[stream] = version
		return nil
	}); err != nil {
		return nil, err
	}
	versions := make([]int64, len(list))
	for i, one := range list {
		if versions[i] = at[one.Stream]; versions[i] > 0 {
			list[i].Key = nil // as the trigger has it: a stream keeps the key of its first event
		}
		at[one.Stream]++
	}
	return versions, nil
}

// forgotten refuses a row of which nobody can know whether it had its event.
func forgotten(list []arriving, stream string) error {
	one := slices.IndexFunc(list, func(one arriving) bool { return one.Stream == stream })
	return refuse("the row of event %s belongs to stream %q, of which events were dropped (`postrider events prune`); its own may be one of them, and would be told twice: "+
		"remove rows that were told, choose others by --where, or leave all that wait with --no-import", list[one].ID, stream)
}

func each[R, T any](list []R, of func(R) T) []T {
	values := make([]T, len(list))
	for i, one := range list {
		values[i] = of(one)
	}
	return values
}

// mayAdopt refuses a table whose owner may not append its rows, and a session that may not import.
func (s *Store) mayAdopt(ctx context.Context, tx pgx.Tx, t *table, noImport bool) error {
	var owner, session bool
	if err := s.sql.MayAdopt.Row(ctx, tx, pg.Args{"schema": s.schema, "table": t.oid}).Scan(&owner, &session); err != nil {
		return fmt.Errorf("rights on the outbox: %w", err)
	}
	schema := identifier(s.schema)
	if !owner {
		return refuse("--table: the trigger of %s runs as its owner, who may not append: GRANT USAGE ON SCHEMA %s TO %s; GRANT EXECUTE ON FUNCTION %[2]s.outbox_append_adopted TO %[3]s",
			t, schema, t.owner)
	}
	if !noImport && (!session || !t.readable) {
		return refuse("--no-import: without it this role must read events, so that no row is appended twice: GRANT SELECT ON %[1]s.events, %[1]s.outbox_stream_heads; "+
			"GRANT EXECUTE ON FUNCTION %[1]s.outbox_adopted_event, %[1]s.outbox_append_batch; or run it as the outbox's owner", schema)
	}
	return nil
}

// resume makes the replacement go on under the table's name at the first adoption, whatever it is called now. While it is there, an event of
// a row's key is the row's, whatever --map says since.
func (s *Store) resume(ctx context.Context, tx pgx.Tx, t *table, a *Adoption, replaced bool) error {
	a.Source = t.String()
	if !replaced {
		return nil
	}
	list, err := s.list(ctx, tx)
	for _, one := range list {
		var had Adoption
		if one.Purpose == Adopted && one.Table == t.String() && json.Unmarshal(one.Settings, &had) == nil && had.Source != "" {
			a.Source, a.unbroken = had.Source, one.Enabled && maps.Equal(had.Where, a.Where)
		}
	}
	return err
}
