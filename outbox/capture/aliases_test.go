package capture_test

import (
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// Columns may be called as the statements here call their rows: a choice of them is told whole, in a backfill, too.
func TestColumnsAreCalledAsRowsAre(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TYPE pair AS (a int)`, `CREATE TABLE named (r int PRIMARY KEY, x pair, secret text)`, `INSERT INTO named VALUES (1, ROW(2), 's')`, `CREATE TABLE whole (LIKE named INCLUDING ALL)`, `INSERT INTO whole TABLE named`,
		`CREATE TABLE later (id int PRIMARY KEY, v pair, secret text)`)
	l.capture(t, capture.Capture{Table: "later", Exclude: []string{"secret"}})
	for _, c := range []capture.Capture{{Table: "named", Exclude: []string{"secret"}}, {Table: "whole"}} {
		if _, err := l.Capture(t.Context(), c, capture.Options{Backfill: true}); err != nil {
			t.Errorf("backfill of %s: %v", c.Table, err)
		}
	}
	l.in(t, "r", `INSERT INTO named VALUES (2, ROW(3), 's')`, `ALTER TABLE later RENAME v TO r`, `INSERT INTO later VALUES (1, ROW(2), 's')`)
	l.tells(t, `named public.named:1 named.read {"new":{"r":1,"x":{"a":2}}}`, `whole public.whole:1 whole.read {"new":{"r":1,"x":{"a":2},"secret":"s"}}`,
		`named public.named:2 named.inserted {"new":{"r":2,"x":{"a":3}}}`, `later public.later:1 later.inserted {"new":{"id":1,"r":{"a":2}}}`)
}
