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

// A key that names no stream fails no writer: its stream is named as those of adopted rows are, and two keys have two streams.
func TestAKeyThatNamesNoStreamIsMadeToFit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE words (word text PRIMARY KEY, n int)`)
	l.capture(t, capture.Capture{Table: "words"})
	for _, key := range []string{`E'a\nb'`, `E'a\tb'`, `'a '`, `' '`, `''`, `U&'\0085'`, `repeat('é', 600)`, `repeat('é', 601)`, `'fits'`} {
		if _, err := l.Exec(t.Context(), `INSERT INTO words VALUES (`+key+`, 1)`); err != nil {
			t.Errorf("the application's INSERT of %s fails: %v", key, err)
		}
	}
	l.run(t, `UPDATE words SET n = 2`, `UPDATE words SET word = 'b' WHERE word = E'a\nb'`)
	if got := one[string](t, l, `SELECT string_agg(format('%s %s %s', streams, versions, names), ', ') FROM (SELECT count(DISTINCT stream_id) AS streams, count(*) AS versions,
			bool_and(stream_id = 'public.words:' || (o.row ->> 'word') OR NOT outbox_bad_text(stream_id)
				AND stream_id = outbox_adopted_name('public.words:' || (o.row ->> 'word'))) AS names
		FROM events, LATERAL (SELECT coalesce(p -> 'new', p -> 'old') AS row FROM (SELECT convert_from(payload, 'UTF8')::jsonb AS p) AS p) AS o) AS e`); got != "10 20 t" {
		t.Errorf("streams, events and whether they are named as adopted ones are: %s", got)
	}
}

// Columns get other types, whatever is told, also in sessions that wrote before.
func TestColumnsGetOtherTypes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, c := range map[string]capture.Capture{"every": {}, "chosen": {Columns: []string{"id", "n"}}, "excluded": {Exclude: []string{"secret"}}, "pair": {Key: []string{"id", "sub"}}} {
		c.Table, c.Topic, c.Type, c.Operations = name, "t", "{operation}", []string{"insert", "delete"}
		l.run(t, `CREATE TABLE `+name+` (id int PRIMARY KEY, n int, sub int NOT NULL DEFAULT 0, secret text)`)
		l.capture(t, c)
		conn, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{
			`INSERT INTO ` + name + ` VALUES (1, 1)`, `UPDATE ` + name + ` SET n = 2`,
			`ALTER TABLE ` + name + ` ALTER id TYPE bigint, ALTER n TYPE text, ALTER sub TYPE numeric`, `UPDATE ` + name + ` SET n = '3'`,
			`UPDATE ` + name + ` SET id = 5000000000`, `INSERT INTO ` + name + ` VALUES (3, 'c')`,
		} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Errorf("%s, %s: %v", name, sql, err)
			}
		}
		conn.Release()
	}
	if n := one[int](t, l, `SELECT count(*) FROM events`); n != 16 {
		t.Errorf("%d events, want 4 of each of 4 tables: %s", n, l.told(t))
	}
}
