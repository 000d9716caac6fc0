package capture_test

import (
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// A trigger is dropped whatever became of the publication and of the columns that it published.
func TestATriggerIsDroppedWhateverWasPublished(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if one[int](t, l, `SELECT current_setting('server_version_num')::int`) < 150000 {
		t.Skip("publications have lists and filters since PostgreSQL 15")
	}
	const published = `SELECT coalesce((SELECT attnames::text FROM pg_publication_tables WHERE pubname = 'theirs' AND tablename = 'cards'), '')`
	for _, c := range []struct{ of, becomes, refused, want string }{
		{`(id, v)`, `ALTER TABLE cards DROP COLUMN v`, "", "{id}"},
		{`(id, v)`, `ALTER TABLE cards RENAME v TO w`, "", "{id,w}"},
		{`(v)`, `ALTER TABLE cards DROP COLUMN v`, "gone", ""},
		{`(id, v) WHERE (id > 7)`, `ALTER TABLE cards RENAME id TO number`, "cannot come back", ""},
		{`(id, v) WHERE (v <> '')`, `ALTER TABLE cards DROP COLUMN v`, "cannot come back", ""},
		{``, `DROP PUBLICATION theirs`, "", ""},
		{``, `DROP PUBLICATION theirs; CREATE PUBLICATION theirs FOR ALL TABLES`, "", "all"},
		{`(id)`, `DROP TABLE cards CASCADE`, "", ""},
	} {
		l.run(t, `DROP TABLE IF EXISTS cards`, `CREATE TABLE cards (id int PRIMARY KEY, v text, secret text)`, `DROP PUBLICATION IF EXISTS theirs`,
			`CREATE PUBLICATION theirs FOR TABLE cards `+c.of+` WITH (publish = 'insert')`)
		if _, err := l.Capture(t.Context(), capture.Capture{Table: "cards"}, capture.Options{Publication: "theirs"}); err != nil {
			t.Fatal(err)
		}
		l.run(t, c.becomes)
		_, err := l.Drop(t.Context(), capture.Captured, "cards", capture.Options{})
		if c.refused != "" {
			wantRefused(t, err, "--leave-publication", c.refused)
			_, err = l.Drop(t.Context(), capture.Captured, "cards", capture.Options{LeavePublication: true})
		}
		if err != nil {
			t.Errorf("after %s, of %s: %v", c.becomes, c.of, err)
		}
		if got := one[string](t, l, published); c.want != "all" && got != c.want {
			t.Errorf("after %s %s is published, want %s", c.becomes, got, c.want)
		}
		if n := one[int](t, l, `SELECT count(*) FROM pg_proc WHERE proname LIKE 'postrider\_%'`); n != 0 {
			t.Fatalf("%d functions are left after %s", n, c.becomes)
		}
	}
}
