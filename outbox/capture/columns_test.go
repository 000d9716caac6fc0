package capture_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// What was chosen is the column, whatever it is called later, and whatever gets its name.
func TestTheChoiceFollowsColumns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		capture.Capture
		want []string
	}{
		"excluded": {capture.Capture{Exclude: []string{"secret"}}, []string{`{"new":{"id":1,"a":"a"}}`, `{"new":{"id":1,"b":"b"}}`, `{"new":{"number":1,"b":"c","secret":"d"}}`}},
		"chosen":   {capture.Capture{Columns: []string{"a"}}, []string{`{"new":{"a":"a"}}`, `{"new":{"b":"b"}}`, `{"new":{"b":"c"}}`}},
		"all": {capture.Capture{}, []string{
			`{"new":{"id":1,"a":"a","secret":"s"}}`, `{"new":{"id":1,"b":"b","pan":"s"}}`,
			`{"new":{"number":1,"b":"c","pan":"s","secret":"d"}}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.run(t, `CREATE TABLE cards (id int, gone text, a text, secret text, part text, PRIMARY KEY (id, part)) PARTITION BY LIST (part)`,
				`CREATE TABLE cards_p (secret text, a text, part text NOT NULL, id int NOT NULL)`, `ALTER TABLE cards DROP COLUMN gone`,
				`ALTER TABLE cards ATTACH PARTITION cards_p FOR VALUES IN ('p')`)
			of := c.Capture
			of.Table, of.Key = "cards", []string{"id"}
			if len(of.Columns) == 0 {
				of.Exclude = append(of.Exclude, "part")
			}
			l.capture(t, of)
			l.run(t, `INSERT INTO cards VALUES (1, 'a', 's', 'p')`,
				`ALTER TABLE cards RENAME COLUMN secret TO pan`, `ALTER TABLE cards RENAME COLUMN a TO b`, `UPDATE cards SET b = 'b'`,
				`ALTER TABLE cards ADD COLUMN secret text`, `ALTER TABLE cards RENAME COLUMN id TO number`, `UPDATE cards SET b = 'c', secret = 'd'`)
			var want []string
			for i, payload := range c.want {
				// json has the columns of the partition in its own order
				if i == 0 {
					want = append(want, `cards public.cards:1 cards.inserted `+payload)
				} else {
					want = append(want, `cards public.cards:1 cards.updated `+payload)
				}
			}
			if got := strings.Split(l.told(t), " | "); !alike(t, got, want) {
				t.Errorf("told %s, want %s", got, want)
			}
			list, err := l.List(t.Context())
			if err != nil || len(list) != 1 || len(list[0].Flaws) != 0 || !strings.Contains(string(list[0].Settings), `"key":["number"]`) {
				t.Errorf("listed: %+v, %v", list, err)
			}
			l.run(t, `ALTER TABLE cards DROP COLUMN number CASCADE`)
			_, err = l.Exec(t.Context(), `INSERT INTO cards (b, part) VALUES ('x', 'p')`)
			wantCode(t, err, "55000")
			if list, err := l.List(t.Context()); err != nil || len(list[0].Flaws) != 1 || !strings.Contains(list[0].Flaws[0].String(), "--key") {
				t.Errorf("listed: %+v, %v", list, err)
			}
		})
	}
}

// alike compares events whatever the order of their columns.
func alike(t *testing.T, got, want []string) bool {
	t.Helper()
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		head, payload, _ := strings.Cut(got[i], " {")
		wantHead, wanted, _ := strings.Cut(want[i], " {")
		if head != wantHead || !sameJSON(t, "{"+payload, "{"+wanted) {
			return false
		}
	}
	return true
}

// A table that was restored has columns of other numbers: the function runs on another table of its owner here, as it does then.
func TestARestoredTableTellsNothingThatWasNotChosen(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE cards (id int PRIMARY KEY, secret text)`)
	l.capture(t, capture.Capture{Table: "cards", Exclude: []string{"secret"}})
	l.run(t, `CREATE TABLE restored (LIKE cards INCLUDING ALL)`,
		`CREATE TRIGGER "00_postrider_capture" AFTER INSERT ON restored FOR EACH ROW EXECUTE FUNCTION postrider_capture_cards()`, `DROP TABLE cards`,
		`INSERT INTO restored VALUES (1, 's')`)
	l.tells(t, `cards public.cards:1 cards.inserted {"new":{"id":1}}`)
	l.run(t, `ALTER TABLE restored RENAME COLUMN secret TO pan`)
	_, err := l.Exec(t.Context(), `INSERT INTO restored VALUES (2, 's')`)
	wantCode(t, err, "55000")
	if list, err := l.List(t.Context()); err != nil || len(list) != 1 || len(list[0].Flaws) == 0 || !strings.Contains(list[0].Flaws[0].String(), "restored") {
		t.Errorf("listed: %+v, %v", list, err)
	}
}

// What is not said stays, and what changes is confirmed.
func TestSettingsAreChangedOneAtATime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	l.run(t, `CREATE TABLE cards (id int PRIMARY KEY, v text, secret text)`, `CREATE TABLE other (id int)`, `CREATE PUBLICATION theirs FOR TABLE cards, other`)
	first := capture.Capture{Table: "cards", Exclude: []string{"secret"}, Operations: []string{"insert", "update"}, Type: "card.{operation}", Old: true}
	if _, err := l.Capture(ctx, first, capture.Options{Publication: "theirs"}); err != nil {
		t.Fatal(err)
	}
	change := capture.Capture{Table: "cards", Topic: "shop"}
	done, err := l.Capture(ctx, change, capture.Options{Replace: true})
	if wantRefused(t, err, "--yes", "topic: cards -> shop"); len(done.Changes) != 1 {
		t.Errorf("it says %+v", done)
	}
	done, err = l.Capture(ctx, change, capture.Options{Replace: true, Confirmed: true})
	if err != nil || len(done.Changes) != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	l.run(t, `INSERT INTO cards VALUES (1, 'v', 's')`, `UPDATE cards SET v = 'w'`, `DELETE FROM cards`)
	l.tells(t, `shop public.cards:1 card.inserted {"new":{"id":1,"v":"v"}}`, `shop public.cards:1 card.updated {"old":{"id":1,"v":"v"},"new":{"id":1,"v":"w"}}`)

	if _, err := l.Capture(ctx, capture.Capture{Table: "cards"}, capture.Options{Replace: true}); err != nil {
		t.Errorf("nothing changes, and it says %v", err)
	}
	_, err = l.Capture(ctx, capture.Capture{Table: "cards", AllColumns: true, NoOld: true}, capture.Options{Replace: true})
	wantRefused(t, err, "exclude: secret -> none", "old: true -> false")
	if _, err := l.Drop(ctx, capture.Captured, "cards", capture.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, l, `SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_publication_tables WHERE pubname = 'theirs'`); got != "cards other" {
		t.Errorf("published is %s", got)
	}
}

// What of a table was published comes back with it, under the names that columns have by then.
func TestAListAndAFilterComeBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if one[int](t, l, `SELECT current_setting('server_version_num')::int`) < 150000 {
		t.Skip("publications have lists and filters since PostgreSQL 15")
	}
	l.run(t, `CREATE TABLE cards (id int PRIMARY KEY, v text, secret text)`, `CREATE PUBLICATION theirs FOR TABLE cards (id, v) WHERE (id > 7)`)
	const published = `SELECT format('%s %s', attnames, rowfilter) FROM pg_publication_tables WHERE pubname = 'theirs'`
	before := one[string](t, l, published)
	if _, err := l.Capture(t.Context(), capture.Capture{Table: "cards"}, capture.Options{Publication: "theirs"}); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, l, `SELECT count(*) FROM pg_publication_tables WHERE pubname = 'theirs'`); n != 0 {
		t.Error("the table is published still")
	}
	l.run(t, `ALTER TABLE cards RENAME COLUMN v TO w`)
	if _, err := l.Drop(t.Context(), capture.Captured, "cards", capture.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, l, published); got != strings.Replace(before, "v", "w", 1) {
		t.Errorf("published is %s, was %s", got, before)
	}
}
