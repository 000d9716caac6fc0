package pg_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

type queries struct {
	Find, Count pg.Query
	other       int //nolint:unused // a field of another type is none of the loader's
}

const good = `-- query: Find
-- A comment for readers.
SELECT a, '@quoted' -- said here
  FROM {schema}.t
-- include: mine
   AND b = @b AND c = @b
-- query: Count
SELECT count(*) FROM {schema}.t
-- include: mine
-- fragment: mine
 WHERE owner = @owner
`

func files(text string) fstest.MapFS { return fstest.MapFS{"sql/a.sql": {Data: []byte(text)}} }

// bind is what pgx makes of a query and its arguments.
func bind(t *testing.T, q pg.Query, args pg.Args) (string, []any, error) {
	t.Helper()
	var b pgx.Batch
	queued := q.Queue(&b, args)
	if len(queued.Arguments) > 0 {
		if rewriter, is := queued.Arguments[0].(pgx.QueryRewriter); is {
			return rewriter.RewriteQuery(t.Context(), nil, queued.SQL, nil)
		}
	}
	return queued.SQL, queued.Arguments, nil
}

func TestFill(t *testing.T) {
	t.Parallel()
	var q queries
	if err := pg.Fill(files(good), "sql/*.sql", "things", "s", &q); err != nil {
		t.Fatal(err)
	}
	want := "/* things.Find */ SELECT a, '@quoted' -- said here\n  FROM \"s\".t\n WHERE owner = $1\n   AND b = $2 AND c = $2"
	if q.Find.Text != want {
		t.Errorf("it says\n%s\nwant\n%s", q.Find.Text, want)
	}
	text, values, err := bind(t, q.Find, pg.Args{"b": 7, "owner": "me"})
	if err != nil || text != want || len(values) != 2 || values[0] != "me" || values[1] != 7 {
		t.Errorf("with its arguments: %s, %v, %v", text, values, err)
	}
	for name, args := range map[string]pg.Args{
		"one is missing": {"b": 7}, "one is misspelt": {"b": 7, "ower": "me"}, "one too many": {"b": 7, "owner": "me", "c": 1},
	} {
		if _, _, err := bind(t, q.Find, args); !errors.Is(err, pg.ErrArgs) || !strings.Contains(err.Error(), "things.Find") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAll(t *testing.T) {
	t.Parallel()
	var q queries
	if err := pg.Fill(files(good), "sql/*.sql", "things", "s", &q); err != nil {
		t.Fatal(err)
	}
	all, err := pg.All(files(good), "sql/*.sql", "things", "s")
	if err != nil || len(all) != 2 || all[0].Text != q.Find.Text || all[1].Text != q.Count.Text {
		t.Errorf("%v, %v; want those of the fields, in the file's order", all, err)
	}
	if _, err := pg.All(files(strings.Replace(good, "include: mine", "include: yours", 1)), "sql/*.sql", "things", "s"); err == nil {
		t.Error("a fragment is missing, and that is no error")
	}
}

func TestFillRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for says, text := range map[string]string{
		"there is no query Count":          strings.Replace(good, "query: Count", "query: Counted", 1),
		"query Third has no field":         good + "-- query: Third\nSELECT 1\n",
		"nothing includes fragment unused": good + "-- fragment: unused\nx\n",
		"there is no fragment yours":       strings.Replace(good, "include: mine", "include: yours", 1),
		"Find is there twice":              good + "-- query: Find\nSELECT 1\n",
		"belongs to none":                  "SELECT 1;\n" + good,
		"is more than a word":              strings.Replace(good, "query: Count", "query: Count -- of things", 1),
	} {
		var q queries
		if err := pg.Fill(files(text), "sql/*.sql", "things", "s", &q); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
	var q queries
	if err := pg.Fill(files(good), "none/*.sql", "things", "s", &q); err == nil {
		t.Error("no files are no error")
	}
	if err := pg.Fill(files(good), "sql/*.sql", "things", `a"b`, &q); !errors.Is(err, pg.ErrSchemaName) {
		t.Errorf("a hostile schema: %v", err)
	}
}
