package capture_test

import (
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// A trigger that fires for replicated rows, too, goes on with that when its settings change. A table that comes back into a publication brings
// no children that it got since.
func TestWhatOthersChoseStays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE one (id int PRIMARY KEY)`, `CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)`, `CREATE TABLE part PARTITION OF parts DEFAULT`, `CREATE PUBLICATION theirs FOR TABLE one`)
	for _, table := range []string{"one", "parts"} {
		l.capture(t, capture.Capture{Table: table, Topic: "a"})
		l.run(t, `ALTER TABLE `+table+` ENABLE ALWAYS TRIGGER "00_postrider_capture"`)
		if _, err := l.Capture(t.Context(), capture.Capture{Table: table, Topic: "b", Type: "t"}, capture.Options{Replace: true, Confirmed: true}); err != nil {
			t.Fatal(err)
		}
		l.in(t, "replica", `SET session_replication_role = replica`, `INSERT INTO `+table+` VALUES (1)`)
	}
	l.tells(t, `b public.one:1 t {"new":{"id":1}}`, `b public.parts:1 t {"new":{"id":1}}`)
	if _, err := l.Capture(t.Context(), capture.Capture{Table: "one"}, capture.Options{Replace: true, Publication: "theirs"}); err != nil {
		t.Fatal(err)
	}
	l.run(t, `CREATE TABLE child () INHERITS (one)`)
	if _, err := l.Drop(t.Context(), capture.Captured, "one", capture.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, l, `SELECT string_agg(tablename, ', ') FROM pg_publication_tables WHERE pubname = 'theirs'`); got != "one" {
		t.Errorf("published are %s, want one alone", got)
	}
}
