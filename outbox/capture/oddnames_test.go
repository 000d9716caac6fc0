package capture_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/outbox/capture"
)

// oddNames are names that PostgreSQL takes, and that mean something to whoever puts statements together.
var oddNames = []string{
	`x$revoke$`, `$$`, `$postrider$`, `$_$postrider$`, `$function$`, `$`, `%s%I%[1]d`, `%`, `a b`, `ABC`, `a"b`, `'`, `\`, `E'\`, `{table}`, `{operation}`, `a.b`, `a,b`, `--`, `/*`,
	`;`, "line\nBEGIN\n", `ünïcödé`, `NEW`, `keys`, `chosen`, `postrider_capture_a`, strings.Repeat("n", 62) + "a", strings.Repeat("n", 62) + "b", strings.Repeat("é", 31), "\u202e",
}

// A table and its columns may be called whatever PostgreSQL takes: triggers are made, tell, are listed, replaced and dropped.
func TestOddNamesAreCaptured(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE PUBLICATION theirs`)
	for _, odd := range oddNames {
		table := pgx.Identifier{odd}.Sanitize()
		l.run(t, `CREATE TABLE `+table+` (`+table+` text PRIMARY KEY, "old $1 %" text, secret text)`, `ALTER PUBLICATION theirs ADD TABLE `+table)
		options := capture.Options{Publication: "theirs"}
		c := capture.Capture{Table: table, Exclude: []string{"secret"}, Old: true, Topic: "t", Type: "{operation}"}
		if _, err := l.Capture(t.Context(), c, options); err != nil {
			t.Errorf("%q: %v", odd, err)
			continue
		}
		options.Replace, options.Confirmed = true, true
		c.Operations = []string{"insert", "delete"}
		if _, err := l.Capture(t.Context(), c, options); err != nil {
			t.Errorf("%q is not replaced: %v", odd, err)
		}
		const events = `SELECT count(*) FROM events WHERE (stream_id = $1 OR $1 ~ '\n' AND stream_id ~ '~[0-9a-f]{32}$') AND event_type = $2 AND convert_from(payload, 'UTF8')::jsonb -> 'new' ->> $3 = 'k'`
		l.run(t, `INSERT INTO `+table+` VALUES ('k', 'v', 's')`, `ALTER TABLE `+table+` RENAME "old $1 %" TO "$1 %I"`, `UPDATE `+table+` SET `+table+` = 'l'`,
			`UPDATE `+table+` SET secret = 't'`)
		if n := one[int](t, l, events, "public."+odd+":k", "inserted", odd); n != 1 {
			t.Errorf("%q has %d events, want 1: %s", odd, n, l.told(t))
		}
		list, err := l.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Table != "public."+odd || len(list[0].Flaws) != 0 {
			t.Errorf("%q is listed as %+v, %v", odd, list, err)
		}
		if _, err := l.Drop(t.Context(), capture.Captured, table, capture.Options{}); err != nil {
			t.Errorf("%q is not dropped: %v", odd, err)
		}
		if n := one[int](t, l, `SELECT count(*) FROM pg_proc WHERE proname LIKE 'postrider\_%'`); n != 0 {
			t.Errorf("of %q %d functions are left", odd, n)
		}
		l.run(t, `DROP TABLE `+table, `TRUNCATE events, outbox, outbox_stream_heads`)
	}
}

// All at once: names that are cut do not meet.
func TestOddNamesDoNotMeet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, odd := range oddNames {
		table := pgx.Identifier{odd}.Sanitize()
		l.run(t, `CREATE TABLE `+table+` (id int PRIMARY KEY)`)
		l.capture(t, capture.Capture{Table: table, Topic: "t", Type: "{operation}"})
	}
	list, err := l.List(t.Context())
	if err != nil || len(list) != len(oddNames) {
		t.Errorf("%d are listed of %d: %v", len(list), len(oddNames), err)
	}
	for _, one := range list {
		if len(one.Flaws) != 0 {
			t.Errorf("%q: %v", one.Table, one.Flaws)
		}
	}
}
