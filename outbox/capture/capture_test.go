package capture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

func TestChangesOfATableBecomeEvents(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE orders (id int PRIMARY KEY, total numeric, note text, secret text)`)
	l.capture(t, capture.Capture{Table: "orders", Exclude: []string{"secret"}, Old: true})
	l.run(t,
		`INSERT INTO orders VALUES (1, 10.50, 'it''s', 'x'), (2, 1, NULL, 'y')`,
		`UPDATE orders SET total = 10.500 WHERE id = 1`, // the same number with another text
		`UPDATE orders SET secret = 'z'`,                // nothing that is captured
		`UPDATE orders SET id = 3 WHERE id = 2`,
		`ALTER TABLE orders ADD COLUMN later int DEFAULT 7`,
		`ALTER TABLE orders DROP COLUMN note`,
		`DELETE FROM orders WHERE id = 3`)
	tx, err := l.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `DELETE FROM orders`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.tells(t,
		`orders public.orders:1 orders.inserted {"new":{"id":1,"total":10.50,"note":"it's"}}`,
		`orders public.orders:2 orders.inserted {"new":{"id":2,"total":1,"note":null}}`,
		`orders public.orders:1 orders.updated {"old":{"id":1,"total":10.50,"note":"it's"},"new":{"id":1,"total":10.500,"note":"it's"}}`,
		`orders public.orders:2 orders.deleted {"old":{"id":2,"total":1,"note":null}}`,
		`orders public.orders:3 orders.inserted {"new":{"id":3,"total":1,"note":null}}`,
		`orders public.orders:3 orders.deleted {"old":{"id":3,"total":1,"later":7}}`)
	_, err = l.Exec(t.Context(), `TRUNCATE orders`)
	wantCode(t, err, "0A000")
}

func TestWhatIsChosenIsCaptured(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE SCHEMA "odd$_$postrider$"`,
		`CREATE TABLE "odd$_$postrider$"."It's \ ""x""" ("a b" text, line int, kept text, "left" text, PRIMARY KEY ("a b", line))`)
	const table = `odd$_$postrider$.It's \ "x"`
	l.capture(t, capture.Capture{
		Table: table, Columns: []string{"kept"}, Operations: []string{"insert", "delete"}, Topic: `t'\`, Type: `{operation} '\ line`,
	})
	l.run(t, `SET standard_conforming_strings = off; INSERT INTO "odd$_$postrider$"."It's \ ""x""" VALUES ('k', 1, 'v', 'w')`,
		`RESET standard_conforming_strings; UPDATE "odd$_$postrider$"."It's \ ""x""" SET kept = 'u'`,
		`UPDATE "odd$_$postrider$"."It's \ ""x""" SET line = 2`)
	l.tells(t,
		`t'\ `+table+`:["k", 1] inserted '\ line {"new":{"kept":"v"}}`,
		`t'\ `+table+`:["k", 1] deleted '\ line {"old":{"kept":"u"}}`,
		`t'\ `+table+`:["k", 2] inserted '\ line {"new":{"kept":"u"}}`)
}

// A row has one text, whatever the session that writes it has set.
func TestASessionsSettingsDoNotChangeEvents(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE kinds (id bigint PRIMARY KEY, n numeric, f float8, at timestamptz, day date, span interval, raw bytea, doc json, many int[], during tstzrange)`)
	l.capture(t, capture.Capture{Table: "kinds", Topic: "k", Type: "kind"})
	for i, settings := range []string{
		`SELECT 1`, `SET timezone = 'Asia/Kathmandu'; SET datestyle = 'German'; SET intervalstyle = 'postgres_verbose'; SET bytea_output = 'escape'; SET extra_float_digits = 0`,
	} {
		l.run(t, settings+fmt.Sprintf(`; INSERT INTO kinds VALUES (9007199254740993 + %d, 12345678901234567890.10, 0.1::float8 + 0.2, '2026-01-02 03:04:05.678+00', '2026-01-02',
			'1 day 2 hours', '\x00ff', '{"a" : 1.0}', '{1,2}', '[2026-01-02 03:04:05+00,)')`, i))
	}
	want := func(id string) string {
		return `k public.kinds:` + id + ` kind {"new":{"id":` + id + `,"n":12345678901234567890.10,"f":0.30000000000000004,"at":"2026-01-02T03:04:05.678+00:00","day":"2026-01-02",` +
			`"span":"P1DT2H","raw":"\\x00ff","doc":{"a" : 1.0},"many":[1,2],"during":"[\"2026-01-02 03:04:05+00\",)"}}`
	}
	l.tells(t, want("9007199254740993"), want("9007199254740994"))
}

// Rows are told wherever they lie, also when a statement names their partition; one that moves ends and begins.
func TestPartitionsAreCaptured(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE parts (id int NOT NULL, region text, v int, PRIMARY KEY (id, region)) PARTITION BY LIST (region)`,
		`CREATE TABLE parts_a PARTITION OF parts FOR VALUES IN ('a')`)
	l.capture(t, capture.Capture{Table: "parts", Key: []string{"id"}, Columns: []string{"region"}})
	l.run(t, `CREATE TABLE parts_b PARTITION OF parts FOR VALUES IN ('b')`,
		`INSERT INTO parts_b VALUES (1, 'b', 0)`, `UPDATE parts SET region = 'a'`, `DELETE FROM parts_a`)
	l.tells(t,
		`parts public.parts:1 parts.inserted {"new":{"region":"b"}}`,
		`parts public.parts:1 parts.deleted {"old":{"region":"b"}}`,
		`parts public.parts:1 parts.inserted {"new":{"region":"a"}}`,
		`parts public.parts:1 parts.deleted {"old":{"region":"a"}}`)
	_, err := l.Capture(t.Context(), capture.Capture{Table: "parts_a"}, capture.Options{})
	wantRefused(t, err, "--table: public.parts_a has the trigger already")
	if n := one[int](t, l, `SELECT count(*) FROM pg_trigger WHERE tgname LIKE '00\_postrider%'`); n != 4 {
		t.Errorf("%d triggers, want two of the table and one of each partition", n)
	}
}

// A trigger of the application that changes the row again does so after the event of the first change.
func TestATriggerOfTheTableComesAfterwards(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE jobs (id int PRIMARY KEY, state text)`,
		`CREATE FUNCTION begin_job() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN UPDATE jobs SET state = 'begun' WHERE id = NEW.id; RETURN NULL; END$$`,
		`CREATE TRIGGER "A" AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION begin_job()`)
	l.capture(t, capture.Capture{Table: "jobs"})
	l.run(t, `INSERT INTO jobs VALUES (1, 'new')`)
	l.tells(t, `jobs public.jobs:1 jobs.inserted {"new":{"id":1,"state":"new"}}`, `jobs public.jobs:1 jobs.updated {"new":{"id":1,"state":"begun"}}`)
}

func TestWhatCannotBeCapturedIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE plain (id int, name text)`, `CREATE TABLE keyed (id int PRIMARY KEY, name text)`, `CREATE TABLE heir () INHERITS (plain)`,
		`CREATE VIEW seen AS SELECT * FROM plain`)
	for _, c := range []struct {
		capture.Capture
		says []string
	}{
		{capture.Capture{Table: "nowhere"}, []string{"--table", "no nowhere"}},
		{capture.Capture{Table: "seen"}, []string{"--table", "no table with rows of its own"}},
		{capture.Capture{Table: "public.outbox_ready"}, []string{"--table", "append for ever"}},
		{capture.Capture{Table: "plain"}, []string{"--table", "inherit from public.plain"}},
		{capture.Capture{Table: "heir"}, []string{"--key", "no primary key"}},
		{capture.Capture{Table: "heir", Key: []string{"id"}}, []string{"--key", "SET NOT NULL"}},
		{capture.Capture{Table: "keyed", Key: []string{"no"}}, []string{"--key", "no column no", "id, name"}},
		{capture.Capture{Table: "keyed", Columns: []string{"no"}}, []string{"--columns", "no column no"}},
		{capture.Capture{Table: "keyed", Columns: []string{"id"}, Exclude: []string{"name"}}, []string{"--exclude", "not both"}},
		{capture.Capture{Table: "keyed", Operations: []string{"truncate"}}, []string{"--operations", "truncate"}},
		{capture.Capture{Table: "keyed", Topic: "t "}, []string{"--topic", "spaces"}},
		{capture.Capture{Table: "keyed", Type: "\n"}, []string{"--type", "control"}},
		{capture.Capture{Table: "keyed", Type: "{foo}.{operation}"}, []string{"--type", "{foo}", "{table}"}},
	} {
		_, err := l.Capture(t.Context(), c.Capture, capture.Options{})
		wantRefused(t, err, c.says...)
	}
	if n := one[int](t, l, `SELECT count(*) FROM pg_proc WHERE proname LIKE 'postrider\_%'`); n != 0 {
		t.Errorf("%d functions are left", n)
	}
}

// Nothing is made by a dry run, all of it is dropped, and a table that appends keeps the outbox from being removed.
func TestATriggerIsListedReplacedAndDropped(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const long = "a_table_with_a_name_of_63_bytes_that_leaves_no_room_for_a_prefix"
	l.run(t, `CREATE TABLE `+long[:63]+` (id int PRIMARY KEY, v int)`)
	ctx := t.Context()
	of := capture.Capture{Table: long[:63]}
	made := func() int {
		return one[int](t, l, `SELECT (SELECT count(*) FROM pg_trigger WHERE tgname LIKE '00\_postrider%') + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'postrider\_%')`)
	}
	dry, err := l.Capture(ctx, of, capture.Options{DryRun: true})
	if err != nil || made() != 0 {
		t.Fatalf("a dry run made %d objects: %v", made(), err)
	}
	l.run(t, strings.Join(dry.SQL, ";\n")) // what it prints is what it does
	list, err := l.List(ctx)
	if err != nil || len(list) != 1 || list[0].Table != "public."+of.Table || list[0].Purpose != capture.Captured || !list[0].Enabled ||
		!strings.Contains(string(list[0].Settings), `"key":["id"]`) {
		t.Fatalf("listed: %+v, %v", list, err)
	}
	_, err = l.Capture(ctx, of, capture.Options{})
	wantRefused(t, err, "--replace")
	of.Topic = "again"
	if _, err := l.Capture(ctx, of, capture.Options{Replace: true, Confirmed: true}); err != nil {
		t.Fatal(err)
	}
	l.run(t, `INSERT INTO `+of.Table+` VALUES (1, 1)`)
	l.tells(t, `again public.`+of.Table+`:1 `+of.Table+`.inserted {"new":{"id":1,"v":1}}`)
	if _, err := l.Drop(ctx, capture.Captured, of.Table, capture.Options{DryRun: true}); err != nil || made() != 3 {
		t.Fatalf("a dry run left %d objects of 3: %v", made(), err)
	}
	if _, err := l.Drop(ctx, capture.Captured, of.Table, capture.Options{}); err != nil || made() != 0 {
		t.Fatalf("%d objects are left: %v", made(), err)
	}
	_, err = l.Drop(ctx, capture.Captured, of.Table, capture.Options{})
	wantRefused(t, err, "capture list")
	l.run(t, `DELETE FROM `+of.Table)
	if n := one[int](t, l, `SELECT count(*) FROM events`); n != 1 {
		t.Errorf("%d events, want the one from before", n)
	}
}
