package capture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// A choice of columns refuses no value that the table takes, and leaves the text of others as it is.
func TestAChoiceOfColumnsTakesWhatTheTableTakes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE docs (id int PRIMARY KEY, "a ""b'%s" json, secret text)`, `CREATE TABLE picked (LIKE docs INCLUDING ALL)`,
		`CREATE TABLE bare (LIKE docs INCLUDING ALL)`)
	const column = `a "b'%s`
	l.capture(t, capture.Capture{Table: "docs", Exclude: []string{"secret"}})
	l.capture(t, capture.Capture{Table: "picked", Columns: []string{column}})
	l.capture(t, capture.Capture{Table: "bare", Exclude: []string{"id", column, "secret"}, Operations: []string{"insert", "delete"}})
	values := []string{`{"n" : "\u0000"}`, `{"\u0000": "\ud800"}`, `["\udc00\ud800"]`, `{"a": 1.0, "a": 1e400}`, `null`}
	var want []string
	for i, value := range values {
		for _, of := range []struct{ table, row string }{
			{"docs", fmt.Sprintf(`{"id":%d,"a \"b'%%s":%s}`, i, value)}, {"picked", fmt.Sprintf(`{"a \"b'%%s":%s}`, value)}, {"bare", `{}`},
		} {
			if _, err := l.Exec(t.Context(), `INSERT INTO `+of.table+` VALUES ($1, $2, 's')`, i, value); err != nil {
				t.Errorf("the application's INSERT of %s into %s fails: %v", value, of.table, err)
				continue
			}
			want = append(want, fmt.Sprintf(`%[1]s public.%[1]s:%[2]d %[1]s.inserted {"new":%[3]s}`, of.table, i, of.row))
		}
	}
	l.tells(t, want...)
	l.run(t, `ALTER TABLE docs RENAME COLUMN "a ""b'%s" TO "c ""%I"`, `ALTER TABLE docs ADD COLUMN "l$$" json`, `UPDATE docs SET "l$$" = '"\u0000"' WHERE id = 0`)
	if got, last := l.told(t), `docs.updated {"new":{"id":0,"c \"%I":`+values[0]+`,"l$$":"\u0000"}}`; !strings.HasSuffix(got, last) {
		t.Errorf("told %s, want %s", got, last)
	}
}
