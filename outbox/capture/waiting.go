package capture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// portion is how many rows are read and appended at once: more than 64, from where on a batch locks no stream.
const portion = 250

// waiting says which rows wait, and in which order.
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
	if chosen := s.chosen("r"); chosen != "" {
		s.test += " AND " + chosen
	}
	if a.NoImport {
		return nil
	}
	order := a.Order
	if len(order) == 0 {
		for _, c := range t.columns {
			if c.Drawn {
				order = []string{c.Name}
				break
			}
		}
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

// arriving is a row that waits, as an event.
type arriving struct {
	ID         uuid.UUID
	Stream     string
	Topic      string
	Type       string
	Payload    []byte
	Metadata   *string
	Tenant     *string
	Key        *string
	OccurredAt *time.Time
}

// selection is the statement that reads the rows that wait.
func (s shape) selection(t *table) string {
	e := s.of("r")
	var list []string
	for _, field := range []string{"event_id", "stream_id", "topic", "type", "payload", "metadata", "tenant_id", "partition_key", "occurred_at"} {
		value := e[field]
		switch {
		case value == "" && field == "occurred_at":
			value = "NULL::timestamptz"
		case value == "":
			value = "NULL::text"
		case field == "metadata":
			value = "(" + value + ")::text"
		case field == "stream_id" || field == "type" || field == "topic": // where there is none, the append says so
			value = "coalesce((" + value + ")::text, '')"
		case field != "event_id" && field != "payload" && field != "occurred_at":
			value = "(" + value + ")::text" // a literal has no type
		}
		list = append(list, value)
	}
	return "SELECT " + strings.Join(list, ",\n       ") + "\n  FROM " + t.quoted() + " AS r\n WHERE " + s.test + "\n ORDER BY " + s.order
}

// bring appends the rows that wait, portion by portion. The table is locked against writers.
func (s *Store) bring(ctx context.Context, tx pgx.Tx, t *table, shape shape, remove bool, o Options, done *Done) error {
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+t.quoted()+" AS r WHERE "+shape.test).Scan(&done.Waiting); err != nil {
		return fmt.Errorf("count the rows of %s that wait: %w", t, err)
	}
	if o.DryRun {
		done.SQL = append(done.SQL, "-- the events of the rows that wait, in this order:\n"+shape.selection(t))
		return nil
	}
	if _, err := tx.Exec(ctx, "DECLARE waiting NO SCROLL CURSOR FOR "+shape.selection(t)); err != nil {
		return fmt.Errorf("read the rows of %s that wait: %w", t, err)
	}
	for read := int64(0); read < done.Waiting; {
		rows, err := tx.Query(ctx, fmt.Sprintf("FETCH %d FROM waiting", portion))
		if err != nil {
			return fmt.Errorf("read the rows of %s that wait: %w", t, err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[arriving])
		if err != nil {
			return fmt.Errorf("read the rows of %s that wait, after %d: %w", t, read, err)
		}
		if len(list) == 0 {
			break
		}
		appended, err := s.appendAll(ctx, tx, list)
		if err != nil {
			return fmt.Errorf("of the rows of %s that wait, one of number %d to %d cannot be imported, and nothing was changed: %w", t, read+1, read+int64(len(list)), err)
		}
		read += int64(len(list))
		done.Imported += appended
		if o.Progress != nil {
			o.Progress(read, done.Waiting)
		}
	}
	if remove {
		if _, err := tx.Exec(ctx, "DELETE FROM "+t.quoted()+" AS r WHERE "+shape.test); err != nil {
			return fmt.Errorf("remove the rows of %s that waited: %w", t, err)
		}
	}
	return nil
}

// appendAll appends those of the rows that have no event yet.
func (s *Store) appendAll(ctx context.Context, tx pgx.Tx, list []arriving) (int64, error) {
	ids := make([]uuid.UUID, len(list))
	for i, one := range list {
		ids[i] = one.ID
	}
	known, err := pg.Collect(ctx, tx, s.sql.Known, pg.Args{"ids": ids}, pgx.RowTo[uuid.UUID])
	if err != nil {
		return 0, err
	}
	list = slices.DeleteFunc(list, func(one arriving) bool { return slices.Contains(known, one.ID) })
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

// versions are what the rows' streams are at before each of them.
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
		versions[i] = at[one.Stream]
		at[one.Stream]++
	}
	return versions, nil
}

// forgotten refuses a row of which nobody can tell whether it had its event.
func forgotten(list []arriving, stream string) error {
	one := slices.IndexFunc(list, func(one arriving) bool { return one.Stream == stream })
	return refuse("the row of event %s belongs to stream %q, of which events were dropped (`postrider events prune`); its own may be one of them, and would be told twice: "+
		"remove rows that were told, choose others by --where, or leave all that wait with --no-import", list[one].ID, stream)
}

func each[T any](list []arriving, of func(arriving) T) []T {
	values := make([]T, len(list))
	for i, one := range list {
		values[i] = of(one)
	}
	return values
}
