package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Query is a statement with named arguments.
type Query struct {
	// Text is sent to PostgreSQL: the arguments are numbered in the order of their first use.
	Text string

	name  string
	names []string
}

// Args are the arguments of a query by name.
type Args map[string]any

// OrNull returns NULL, as an argument and in JSON, for an empty value.
func OrNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// UTC converts a time that was read, which has the session's zone; nil stays nil.
func UTC(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	return new(at.UTC())
}

// ErrArgs means that a query was given other arguments than its text names.
var ErrArgs = errors.New("arguments do not fit the statement")

// Exec runs the query; the tag has the number of rows.
func (q Query) Exec(ctx context.Context, db Execer, args Args) (pgconn.CommandTag, error) {
	return db.Exec(ctx, q.Text, q.bind(args)...)
}

// Rows runs the query and returns its rows.
func (q Query) Rows(ctx context.Context, db Querier, args Args) (pgx.Rows, error) {
	return db.Query(ctx, q.Text, q.bind(args)...)
}

// SQLRows is Rows through database/sql. The arguments must be of types that every driver takes.
func (q Query) SQLRows(ctx context.Context, db SQLQuerier, args Args) (Rows, error) {
	values := q.bind(args)
	if len(values) > 0 {
		if wrong, is := values[0].(misfit); is {
			return nil, wrong.err
		}
	}
	return QuerySQL(ctx, db, q.Text, values...)
}

// Collect runs the query and returns the results of row for each of its rows.
func Collect[T any](ctx context.Context, db Querier, q Query, args Args, row pgx.RowToFunc[T]) ([]T, error) {
	rows, err := q.Rows(ctx, db, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, row)
}

// Row runs the query and returns its first row.
func (q Query) Row(ctx context.Context, db RowQuerier, args Args) pgx.Row {
	return db.QueryRow(ctx, q.Text, q.bind(args)...)
}

// Queue adds the query to a batch.
func (q Query) Queue(b *pgx.Batch, args Args) *pgx.QueuedQuery {
	return b.Queue(q.Text, q.bind(args)...)
}

// bind puts the arguments in the order of their numbers. It keeps nothing of args, so that a small literal need not be allocated: claims and
// marks are made of such calls. A missing or unknown name is ErrArgs, which the call returns.
func (q Query) bind(args Args) []any {
	if len(q.names) == 0 && len(args) == 0 {
		return nil
	}
	values := make([]any, len(q.names))
	for i, name := range q.names {
		value, given := args[name]
		if !given {
			return []any{misfit{fmt.Errorf("%w: %s is not given @%s", ErrArgs, q.name, name)}}
		}
		values[i] = value
	}
	if len(args) != len(values) {
		for name := range args {
			if !slices.Contains(q.names, name) {
				return []any{misfit{fmt.Errorf("%w: %s has no @%s", ErrArgs, q.name, name)}}
			}
		}
	}
	return values
}

// misfit stands for arguments that do not fit.
type misfit struct{ err error }

func (m misfit) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return "", nil, m.err
}

// Fill reads the files that match the pattern (sql/*.sql) and puts every query into its field of the struct that into points to. owner names
// the package; a query's text begins with a comment that names both, for readers of pg_stat_activity. replace has pairs of old and new,
// replaced in the texts beside {schema} and the lists of our tables. A query without a field, a field of type Query without a query, and a
// fragment that nothing includes are errors.
func Fill(files fs.FS, pattern, owner, schema string, into any, replace ...string) error {
	if err := CheckSchema(schema); err != nil {
		return err
	}
	all, err := readQueries(files, pattern)
	if err != nil {
		return err
	}
	replacer := replacing(schema, replace)
	target := reflect.ValueOf(into).Elem()
	for i := range target.NumField() {
		field := target.Type().Field(i)
		if field.Type != reflect.TypeFor[Query]() {
			continue
		}
		query, err := all.query(owner, field.Name, replacer)
		if err != nil {
			return fmt.Errorf("statements in %s: %w", pattern, err)
		}
		target.Field(i).Set(reflect.ValueOf(query))
	}
	return all.rest(pattern)
}

// All returns, for people, every query of the files as Fill would put it into its field, in the order of files and lines.
func All(files fs.FS, pattern, owner, schema string, replace ...string) ([]Query, error) {
	if err := CheckSchema(schema); err != nil {
		return nil, err
	}
	all, err := readQueries(files, pattern)
	if err != nil {
		return nil, err
	}
	replacer := replacing(schema, replace)
	var queries []Query
	for _, name := range all.order {
		query, err := all.query(owner, name, replacer)
		if err != nil {
			return nil, fmt.Errorf("statements in %s: %w", pattern, err)
		}
		queries = append(queries, query)
	}
	return queries, all.rest(pattern)
}

func replacing(schema string, replace []string) *strings.Replacer {
	listed := func(names []string) string { return "'{" + strings.Join(names, ",") + "}'::text[]" }
	return strings.NewReplacer(append([]string{
		"{schema}", pgx.Identifier{schema}.Sanitize(), "{outbox_tables}", listed(OutboxTables), "{inbox_tables}", listed(InboxTables),
	}, replace...)...)
}

var argument = regexp.MustCompile(`@([A-Za-z_][A-Za-z0-9_]*)`)

// newQuery numbers the arguments. A look-alike inside of quotes stays: pgx reads the text.
//
//nolint:contextcheck,nolintlint // nothing is sent: the text is rewritten; the second linter does not see that the first needs it
func newQuery(name, text string) (Query, error) {
	named := pgx.NamedArgs{}
	for _, found := range argument.FindAllStringSubmatch(text, -1) {
		named[found[1]] = found[1]
	}
	numbered, used, err := named.RewriteQuery(context.Background(), nil, text, nil)
	if err != nil {
		return Query{}, fmt.Errorf("statement %s: %w", name, err)
	}
	q := Query{Text: "/* " + name + " */ " + numbered, name: name}
	for _, n := range used {
		q.names = append(q.names, fmt.Sprint(n)) // a name stood for its value above
	}
	return q, nil
}

// texts are the queries and fragments of a folder, by name.
type texts struct {
	queries, fragments map[string]string
	taken, included    map[string]bool
	order              []string // of the queries
}

const (
	beginsQuery    = "-- query: "
	beginsFragment = "-- fragment: "
	includes       = "-- include: "
)

func readQueries(files fs.FS, pattern string) (*texts, error) {
	t := &texts{map[string]string{}, map[string]string{}, map[string]bool{}, map[string]bool{}, nil}
	names, err := fs.Glob(files, pattern)
	if err != nil || len(names) == 0 {
		return t, fmt.Errorf("no statement files match %s: %w", pattern, cmp.Or(err, fs.ErrNotExist))
	}
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return t, fmt.Errorf("read statements: %w", err)
		}
		if err := t.read(string(content)); err != nil {
			return t, fmt.Errorf("%s: %w", name, err)
		}
	}
	return t, nil
}

// read takes one file apart. Comments that fill a line are for readers of the file.
func (t *texts) read(content string) error {
	var into map[string]string
	var name string
	for number, line := range strings.Split(content, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, beginsQuery), strings.HasPrefix(line, beginsFragment):
			into, name = t.queries, strings.TrimPrefix(line, beginsQuery)
			if strings.HasPrefix(line, beginsFragment) {
				into, name = t.fragments, strings.TrimPrefix(line, beginsFragment)
			} else {
				t.order = append(t.order, name)
			}
			if strings.Contains(name, " ") {
				return fmt.Errorf("line %d: the name %q is more than a word", number+1, name)
			}
			if _, twice := into[name]; twice {
				return fmt.Errorf("line %d: %s is there twice", number+1, name)
			}
			into[name] = ""
		case trimmed == "", strings.HasPrefix(trimmed, "--") && !strings.HasPrefix(trimmed, includes):
		case into == nil:
			return fmt.Errorf("line %d: what comes before the first query belongs to none", number+1)
		default:
			into[name] += line + "\n"
		}
	}
	return nil
}

// query takes one, and puts names and numbers into its text.
func (t *texts) query(owner, name string, replacer *strings.Replacer) (Query, error) {
	text, err := t.take(name)
	if err != nil {
		return Query{}, err
	}
	return newQuery(owner+"."+name, replacer.Replace(text))
}

// take returns a query with its fragments in it.
func (t *texts) take(name string) (string, error) {
	text, found := t.queries[name]
	if !found {
		return "", fmt.Errorf("there is no query %s", name)
	}
	t.taken[name] = true
	return t.include(text)
}

func (t *texts) include(text string) (string, error) {
	var out []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		name, found := strings.CutPrefix(strings.TrimSpace(line), includes)
		if !found {
			out = append(out, line)
			continue
		}
		fragment, known := t.fragments[name]
		if !known {
			return "", fmt.Errorf("there is no fragment %s", name)
		}
		t.included[name] = true
		inner, err := t.include(fragment)
		if err != nil {
			return "", err
		}
		out = append(out, inner)
	}
	return strings.Join(out, "\n"), nil
}

// rest refuses queries and fragments that nobody takes.
func (t *texts) rest(pattern string) error {
	for name := range t.queries {
		if !t.taken[name] {
			return fmt.Errorf("statements in %s: query %s has no field", pattern, name)
		}
	}
	for name := range t.fragments {
		if !t.included[name] {
			return fmt.Errorf("statements in %s: nothing includes fragment %s", pattern, name)
		}
	}
	return nil
}
