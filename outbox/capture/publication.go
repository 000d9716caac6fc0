package capture

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// membership is a table's place in a publication that another relay reads.
type membership struct {
	Name string `json:"name"`
	// Columns and Where restrict the published part of the table; all of it without them.
	Columns []string `json:"columns,omitempty"`
	Where   string   `json:"where,omitempty"`
}

const publication = "ALTER PUBLICATION "

// statement takes the table in or out alone: its later children stay as they are.
func (m *membership) statement(verb string, t name) string {
	text := publication + identifier(m.Name) + " " + verb + " TABLE ONLY " + t.quoted()
	if verb == "DROP" {
		return text
	}
	if len(m.Columns) > 0 {
		var columns []string
		for _, c := range m.Columns {
			columns = append(columns, identifier(c))
		}
		text += " (" + strings.Join(columns, ", ") + ")"
	}
	if m.Where != "" {
		text += " WHERE (" + m.Where + ")"
	}
	return text
}

// leave notes the publication that the table leaves: the requested one, or the one that it left for the former trigger.
func (s *Store) leave(ctx context.Context, tx pgx.Tx, t *table, asked string) error {
	if t.before != nil {
		t.left = t.before.note.Publication
	}
	if asked == "" {
		return nil
	}
	if t.left != nil && t.left.Name != asked {
		return refuse("--publication: %s left publication %s for the trigger; drop that first, which puts it back", t, t.left.Name)
	}
	m, err := s.membership(ctx, tx, asked, t.oid)
	switch {
	case err != nil:
		return err
	case m != nil:
		t.left, t.joins = m, true
	case t.left == nil: // PostgreSQL says why it cannot leave
		t.left, t.joins = &membership{Name: asked}, true
	}
	return nil
}

// leaves returns the statements that take the table out.
func (t *table) leaves() []string {
	if !t.joins {
		return nil
	}
	return []string{t.left.statement("DROP", t.name)}
}

// membership returns a publication's part of a table; nil where it does not name it.
func (s *Store) membership(ctx context.Context, db pgx.Tx, named string, table uint32) (*membership, error) {
	m := &membership{Name: named}
	var filtered bool
	err := s.sql.Membership.Row(ctx, db, pg.Args{"publication": named, "table": table}).Scan(&m.Columns, &m.Where, &filtered)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case filtered && m.Where == "":
		return nil, refuse("--publication: %s publishes some rows of a partitioned table, and which cannot be read: take the table out yourself, and leave --publication out", named)
	}
	return m, nil
}

// comesBack returns the statement that puts a table back into the publication that it left; none where it is there.
func (s *Store) comesBack(ctx context.Context, tx pgx.Tx, t *Trigger, o Options) ([]string, error) {
	m := t.note.Publication
	switch {
	case t.oid == 0 || o.LeavePublication || m == nil && o.Publication == "":
		return nil, nil
	case m == nil:
		m = &membership{Name: o.Publication}
	case o.Publication != "" && o.Publication != m.Name:
		return nil, refuse("--publication: %s left publication %s, not %s", t.Table, m.Name, o.Publication)
	}
	if o.Publication == "" {
		var there bool
		if err := s.sql.Published.Row(ctx, tx, pg.Args{"publication": m.Name}).Scan(&there); err != nil || !there {
			return nil, err // nobody reads it, or it has all tables
		}
	}
	is, err := s.membership(ctx, tx, m.Name, t.oid)
	if is != nil || err != nil {
		return nil, err
	}
	back, err := t.published(*m)
	if err == nil && !closed(m.Where) {
		err = refuse("--leave-publication: drops the trigger; the filter that the comment of %s gives for publication %s is no single expression: put the table back yourself", t.Function, m.Name)
	}
	if err != nil {
		return nil, err
	}
	return []string{back.statement("ADD", t.table)}, nil
}

// inQuotes matches quoted parts of a filter, but for those with a backslash.
var inQuotes = regexp.MustCompile(`'[^'\\]*'|"[^"\\]*"`)

// closed refuses a filter that could end the brackets around it: the table's owner can write the comment that holds it.
func closed(filter string) bool {
	rest, depth := inQuotes.ReplaceAllString(filter, " "), 0
	for _, r := range rest {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth < 0 {
			return false
		}
	}
	return depth == 0 && !strings.ContainsAny(rest, `;$'"\`) && !strings.Contains(rest, "--") && !strings.Contains(rest, "/*")
}

// published returns a publication's current part of the table: without dropped columns, renamed ones by their new names.
func (t *Trigger) published(m membership) (membership, error) {
	var columns []string
	for _, c := range m.Columns {
		c = t.nowCalled(c)
		there := slices.Contains(slices.Collect(maps.Values(t.columns)), c)
		if there {
			columns = append(columns, c)
		}
		if !there && t.moved() {
			columns = nil // it may have another name
			break
		}
	}
	if len(m.Columns) > 0 && len(columns) == 0 {
		return m, refuse("--leave-publication: drops the trigger although %s cannot come back into publication %s, whose columns of it are gone or have other names: %s",
			t.Table, m.Name, strings.Join(m.Columns, ", "))
	}
	m.Columns = columns
	return m, nil
}
