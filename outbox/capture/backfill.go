package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// backfilled counts the finished rows of a backfill. It stands in the function's comment, so that it commits with each page's events.
type backfilled struct {
	// Begun is the last sequence before: a row that has an event of a later one is done.
	Begun int64 `json:"begun"`
	// After is the key of the last row that was read.
	After []string `json:"after,omitempty"`
	Read  int64    `json:"read"`
	Told  int64    `json:"told"`
	Done  bool     `json:"done"`
	// Order is the types and collations of the key: rows are in another order with others.
	Order []uint32 `json:"order,omitempty"`
}

// page bounds the rows of a transaction, whose writers wait for it.
const page = 250

// begins starts a backfill in the new trigger's note, or goes on where the former trigger stopped.
func (s *Store) begins(ctx context.Context, tx pgx.Tx, t *table, c Capture, before *Capture, o Options) error {
	if before != nil && slices.Equal(before.Key, c.Key) {
		t.filled = t.before.note.Backfill
	}
	if !o.Backfill || t.filled != nil && (!t.filled.Done || !o.Replace) {
		return nil
	}
	var own, may, unique bool
	if err := s.sql.MayBackfill.Row(ctx, tx, pg.Args{"schema": s.schema, "table": t.oid, "numbers": t.listed(c.Key)}).Scan(&own, &may, &unique); err != nil {
		return err
	}
	schema := identifier(s.schema)
	switch {
	case !unique:
		return refuse("--backfill: nothing keeps two rows of %s from having one %s, so that none can be told once: --key names the columns of its primary key, or of a unique index",
			t, strings.Join(c.Key, ", "))
	case !own:
		return refuse("--backfill: reads %s with the code of its owner, and nobody else's rights: connect as %s", t, t.owner)
	case !may || !t.readable:
		return refuse("--backfill: this role must read events, so that no row is told behind its change: GRANT SELECT ON %[1]s.events, %[1]s.outbox_stream_heads; "+
			"GRANT EXECUTE ON FUNCTION %[1]s.outbox_append_batch; or run it as the outbox's owner", schema)
	}
	t.filled = &backfilled{}
	return tx.QueryRow(ctx, "SELECT coalesce(max(sequence), 0) FROM "+schema+".events").Scan(&t.filled.Begun)
}

// backfill appends the rows page by page, with pauses of 10 ms to 1 s where one is refused. An interrupted one goes on after the last
// committed page.
func (s *Store) backfill(ctx context.Context, c Capture, o Options, done *Done) error {
	const shortest = 10 * time.Millisecond
	alone, pause := false, shortest
	for ; ; pause = min(2*pause, time.Second) {
		var read int
		var filled backfilled
		err := s.transaction(ctx, Options{LockTimeout: 500 * time.Millisecond}, func(tx pgx.Tx) (err error) {
			filled, read, err = s.backfillPage(ctx, tx, c.Table, alone)
			return err
		})
		switch {
		case pg.Refused(err, "55P03", "40P01", "40001", "OB001", "23505"):
			select { // a row is held for long, or its stream got an event; a backfill waits with one lock
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		case err != nil:
			return fmt.Errorf("rows of %s that were there, after key %s: %w", done.Table, strings.Join(filled.After, ", "), err)
		}
		alone, pause = read == 0, shortest
		done.Waiting, done.Imported = filled.Read, filled.Told
		if o.Progress != nil {
			o.Progress(filled.Read, filled.Told)
		}
		if filled.Done {
			return nil
		}
	}
}

// row is one row of a page, with its stream.
type row struct {
	Key    []string
	Stream string
	Row    string
}

// backfillPage appends the next rows: those that nobody locks, up to the first locked one, or alone that one. So it waits for no row while it
// holds others: no writer can deadlock with it. A row under its lock cannot change, and has an event if it changed before.
func (s *Store) backfillPage(ctx context.Context, tx pgx.Tx, asked string, alone bool) (filled backfilled, read int, err error) {
	for setting := range strings.Lines(fixed + "\nSET row_security = off") {
		if _, err := tx.Exec(ctx, strings.Replace(setting, "SET ", "SET LOCAL ", 1)); err != nil {
			return filled, 0, err
		}
	}
	t, err := s.find(ctx, tx, Captured, asked)
	if err != nil {
		return filled, 0, err
	}
	if _, err := tx.Exec(ctx, "LOCK TABLE "+t.quoted()+" IN ROW SHARE MODE"); err != nil {
		return filled, 0, err
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('postrider backfill', $1))", int64(t.oid)); err != nil {
		return filled, 0, err
	}
	trigger, err := s.installed(ctx, tx, Captured, t.quoted())
	if err != nil {
		return filled, 0, err
	}
	if trigger == nil || trigger.note.Backfill == nil {
		return filled, 0, refuse("--backfill: the capture of %s was ended meanwhile, or made anew; begin again", t)
	}
	filled = *trigger.note.Backfill
	if filled.Done {
		return filled, 0, nil
	}
	c, err := trigger.capture()
	if err != nil {
		return filled, 0, err
	}
	order := t.order(c.Key)
	if len(c.Key) < trigger.keys {
		return filled, 0, refuse("--backfill: a column of the key of %s was dropped, so that no row is told by it: --key names others, with --replace --yes, and begins anew", t)
	}
	if filled.Order != nil && !slices.Equal(filled.Order, order) {
		filled.After = nil // what was told has its event, and is passed over
	}
	filled.Order = order
	keys, rows, err := t.next(ctx, tx, c, trigger.note.Table, filled.After, alone)
	if err != nil {
		return filled, 0, hidden(t, err)
	}
	for read < len(keys) {
		at := slices.IndexFunc(rows, func(r row) bool { return slices.Equal(r.Key, keys[read]) })
		if at < 0 && !alone {
			break // it is held, or was deleted
		}
		read++
	}
	if len(keys) > 0 && read == 0 {
		return filled, 0, nil
	}
	rows = slices.DeleteFunc(rows, func(r row) bool {
		return !slices.ContainsFunc(keys[:read], func(key []string) bool { return slices.Equal(key, r.Key) })
	})
	told, err := s.appendRows(ctx, tx, rows, filled.Begun, c.Topic, c.kind(&table{name: name{"", strings.TrimPrefix(trigger.note.Table, trigger.function.schema+".")}}, "read"))
	if err != nil {
		return filled, 0, err
	}
	filled.Read, filled.Told, filled.Done = filled.Read+int64(read), filled.Told+int64(told), len(keys) == 0
	if read > 0 {
		filled.After = keys[read-1]
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(trigger.comment), &all); err != nil {
		return filled, 0, err
	}
	comment, err := kept(all, struct {
		Backfill backfilled `json:"backfill"`
	}{filled})
	if err != nil {
		return filled, 0, err
	}
	_, err = tx.Exec(ctx, "COMMENT ON FUNCTION "+trigger.function.quoted()+"() IS "+literal(comment))
	return filled, read, err
}

// order names the types and collations by which keys are in order.
func (t *table) order(keys []string) (order []uint32) {
	for _, key := range keys {
		column, _ := t.column(key)
		order = append(order, column.TypeID, column.Collation)
	}
	return order
}

// next returns the next keys, and locks and returns those rows that nobody else has locked.
func (t *table) next(ctx context.Context, tx pgx.Tx, c Capture, named string, after []string, alone bool) (keys [][]string, rows []row, err error) {
	var columns, texts, names []string
	for _, key := range c.Key {
		columns, texts = append(columns, "r."+identifier(key)), append(texts, "r."+identifier(key)+"::text")
	}
	limit := page
	if alone {
		limit = 1
	}
	from := " FROM " + t.quoted() + " AS r WHERE " + t.compared(c.Key, after, ">", ">")
	order := " ORDER BY " + strings.Join(columns, ", ")
	found, err := tx.Query(ctx, "SELECT ARRAY["+strings.Join(texts, ", ")+"]"+from+order+fmt.Sprintf(" LIMIT %d", limit), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return nil, nil, err
	}
	if keys, err = pgx.CollectRows(found, pgx.RowTo[[]string]); err != nil || len(keys) == 0 {
		return nil, nil, err
	}
	of := "row_to_json(r.*)::text"
	if len(c.chosen()) > 0 {
		for _, one := range t.columns {
			if slices.Contains(c.chosen(), one.Name) == (len(c.Columns) > 0) {
				names = append(names, "r."+identifier(one.Name))
			}
		}
		of = "(SELECT row_to_json(x.*)::text FROM (SELECT " + strings.Join(names, ", ") + ") AS x)"
	}
	stream := columns[0] + "::text"
	if len(columns) > 1 {
		stream = "json_build_array(" + strings.Join(columns, ", ") + ")::text"
	}
	wait := " SKIP LOCKED"
	if alone {
		wait = ""
	}
	found, err = tx.Query(ctx, "SELECT ARRAY["+strings.Join(texts, ", ")+"], "+fitted(literal(named+":")+" || "+stream)+", "+of+from+
		" AND "+t.compared(c.Key, keys[len(keys)-1], "<", "<=")+order+" FOR SHARE OF r"+wait, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return nil, nil, err
	}
	rows, err = pgx.CollectRows(found, pgx.RowToStructByPos[row])
	return keys, rows, err
}

// compared tests that a row's key comes before or behind a key, with the operators that the order has. last is for the last column.
func (t *table) compared(columns, key []string, operator, last string) string {
	if len(key) == 0 {
		return "true"
	}
	test := func(operator string) string {
		c, _ := t.column(columns[0])
		return "r." + identifier(c.Name) + " OPERATOR(" + identifier(c.Operators) + "." + operator + ") " + literal(key[0]) + "::" + c.Type
	}
	if len(columns) == 1 {
		return test(last)
	}
	return test(operator+"=") + " AND (" + test(operator) + " OR " + test("=") + " AND " + t.compared(columns[1:], key[1:], operator, last) + ")"
}

// appendRows appends the events of rows that have none since the backfill began. The rows are locked: their earlier changes are visible.
func (s *Store) appendRows(ctx context.Context, tx pgx.Tx, rows []row, begun int64, topic, kind string) (int, error) {
	found, err := s.sql.Since.Rows(ctx, tx, pg.Args{"begun": begun, "streams": each(rows, func(r row) string { return r.Stream })})
	if err != nil {
		return 0, err
	}
	at := map[string]int64{}
	var stream string
	var version int64
	if _, err := pgx.ForEachRow(found, []any{&stream, &version}, func() error { at[stream] = version; return nil }); err != nil {
		return 0, err
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { _, first := at[r.Stream]; return !first })
	if len(rows) == 0 {
		return 0, nil
	}
	var appended int
	err = s.sql.Append.Row(ctx, tx, pg.Args{
		"ids":      each(rows, func(row) uuid.UUID { return uuid.New() }),
		"streams":  each(rows, func(r row) string { return r.Stream }),
		"versions": each(rows, func(r row) int64 { return at[r.Stream] }),
		"topics":   each(rows, func(row) string { return topic }),
		"types":    each(rows, func(row) string { return kind }),
		"payloads": each(rows, func(r row) []byte { return []byte(`{"new":` + r.Row + `}`) }),
		"metadata": nil, "tenants": nil, "keys": nil, "occurred": nil,
	}).Scan(&appended)
	return appended, err
}

// fitted returns a stream's name as the trigger makes it.
func fitted(text string) string {
	return `(SELECT CASE WHEN ` + nameless("s") + `
		THEN ltrim(left(regexp_replace(s COLLATE "C", E'` + controls + `+', ' ', 'g'), 240)) || '~' || md5(s) ELSE s END FROM (SELECT ` + text + `) AS t (s))`
}
