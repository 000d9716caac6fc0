package capture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/outbox/capture"
)

// count is how many events there are.
func (l lab) count(t *testing.T) int {
	t.Helper()
	return one[int](t, l, `SELECT count(*) FROM events`)
}

// wantImported wants so many rows that wait to become events.
func (l lab) wantImported(t *testing.T, a capture.Adoption, want int64) {
	t.Helper()
	if done, err := l.Adopt(t.Context(), a, capture.Options{Replace: true}); err != nil || done.Imported != want {
		t.Errorf("%d of %d rows of %s were imported, want %d: %v", done.Imported, done.Waiting, a.Table, want, err)
	}
}

// A uuid that two tables have is two events: which came first keeps it.
func TestTablesMayShareTheirIDs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := map[string]string{"id": "event_id", "stream": "stream_id", "body": "payload"}
	a, b := capture.Adoption{Table: "a", Map: m, Type: "t", Delete: true}, capture.Adoption{Table: "b", Map: m, Type: "t", Delete: true}
	for _, name := range []string{"a", "b"} {
		l.run(t, `CREATE TABLE `+name+` (n serial, id uuid PRIMARY KEY, stream text, body text)`,
			fmt.Sprintf(`INSERT INTO %s (id, stream, body) SELECT md5(n::text)::uuid, 's', '%[1]s' || n FROM generate_series(1, 300) AS n`, name))
	}
	l.adopt(t, a)
	l.adopt(t, b)
	const shared = `11111111-1111-4111-8111-111111111111`
	l.run(t, `INSERT INTO a (id, stream, body) VALUES ('`+shared+`', 's', 'a')`, `INSERT INTO b (id, stream, body) VALUES ('`+shared+`', 's', 'b')`,
		`INSERT INTO b (id, stream, body) VALUES ('`+shared+`', 's', 'again')`, `INSERT INTO b (id, stream, body) VALUES ('`+shared+`', 's', 'again')`)
	if n := l.count(t); n != 604 {
		t.Errorf("%d events, want 604", n)
	}
	if got := one[string](t, l, `SELECT convert_from(payload, 'UTF8') FROM events WHERE event_id = $1`, shared); got != "a" {
		t.Errorf("the uuid is that of %q", got)
	}
	if n := one[int](t, l, `SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b)`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	// The same rows in another table may be another table's, or this one's by another name.
	l.run(t, `CREATE TABLE c (LIKE a INCLUDING ALL)`, `INSERT INTO c (id, stream, body) SELECT md5('1')::uuid, 's', 'a1'`)
	c := capture.Adoption{Table: "c", Map: m, Type: "t"}
	_, err := l.Adopt(t.Context(), c, capture.Options{})
	wantRefused(t, err, "row c4ca4238-a0b9-2382-0dcc-509a6f75849b ", "another table", "--anew", "--where", "--no-import")
	c.Anew = true
	l.wantImported(t, c, 1)
	l.wantImported(t, c, 0)
}

// Nothing keeps a column that only looks like one of ids from having a value twice: the row's primary key tells.
func TestOneIDOfManyRows(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (n bigserial PRIMARY KEY, id uuid, stream text, body text)`, `CREATE TABLE bare (n bigserial, id uuid, stream text, body text)`,
		`INSERT INTO queue (id, stream, body) SELECT CASE WHEN n % 250 <> 1 THEN gen_random_uuid() ELSE md5('same')::uuid END, 's', '{}' FROM generate_series(1, 502) AS n`,
		`INSERT INTO queue (id, stream, body) SELECT i, 's', '{}' FROM unnest(ARRAY[NULL, NULL, md5('same')::uuid]) AS i`)
	a := capture.Adoption{Table: "queue", Map: map[string]string{"id": "event_id", "stream": "stream_id", "body": "payload"}, Type: "t"}
	l.wantImported(t, a, 505)
	l.run(t, `INSERT INTO queue (id, stream, body) SELECT i, 's', '{}' FROM unnest(ARRAY[NULL, md5('same')::uuid, md5('same')::uuid]) AS i`)
	l.wantImported(t, a, 0)
	if n := l.count(t); n != 508 {
		t.Errorf("%d events, want 508", n)
	}
	a.Table = "bare"
	_, err := l.Adopt(t.Context(), a, capture.Options{})
	wantRefused(t, err, "--map", "ADD PRIMARY KEY", "ADD UNIQUE (id)")
}

// Ids begin again, under the trigger or while there is none: a row is told if it is another one.
func TestIDsThatBeginAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id bigserial PRIMARY KEY, stream text, body text)`)
	a := capture.Adoption{Table: "queue", Map: map[string]string{"id": "event_id", "stream": "stream_id", "body": "payload"}, Type: "t"}
	l.adopt(t, a)
	const fill = `INSERT INTO queue (stream, body) SELECT 's', $1 || n FROM generate_series(1, 10) AS n`
	for _, round := range []string{"a", "b", "b", "b"} {
		l.run(t, `TRUNCATE queue RESTART IDENTITY`)
		if _, err := l.Exec(t.Context(), fill, round); err != nil {
			t.Fatalf("the application's INSERT fails: %v", err)
		}
	}
	l.wantImported(t, a, 0)
	if n := l.count(t); n != 40 {
		t.Errorf("%d events, want 40", n)
	}
	if _, err := l.Drop(t.Context(), capture.Adopted, "queue", capture.Options{}); err != nil {
		t.Fatal(err)
	}
	l.run(t, `TRUNCATE queue RESTART IDENTITY`, strings.ReplaceAll(fill, "$1", "'c'"))
	_, err := l.Adopt(t.Context(), a, capture.Options{})
	wantRefused(t, err, "row 1 ", "began again", "--anew")
	a.Anew = true
	l.wantImported(t, a, 10)
	l.wantImported(t, a, 0)
	a.Type, a.Anew = "other", false // rows that were told are, by whatever type now
	l.wantImported(t, a, 0)

	// What is adopted again by another name is the same table's.
	l.run(t, `ALTER TABLE queue RENAME TO renamed`, `INSERT INTO renamed (stream, body) VALUES ('s', 'last')`)
	a.Table = "renamed"
	l.wantImported(t, a, 0)
	if n := l.count(t); n != 51 {
		t.Errorf("%d events, want 51", n)
	}
}

// Two transactions that write one uuid, to two tables, both commit.
func TestAnIDThatIsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, name := range []string{"a", "b"} {
		l.run(t, `CREATE TABLE `+name+` (id uuid PRIMARY KEY, stream text, body text)`)
		l.adopt(t, capture.Adoption{Table: name, Map: map[string]string{"id": "event_id", "stream": "stream_id", "body": "payload"}, Type: "t", NoImport: true})
	}
	first, err := l.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Rollback(t.Context())
	second, err := l.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Rollback(t.Context())
	if _, err := second.Exec(t.Context(), `SELECT FROM events`); err != nil { // has its snapshot
		t.Fatal(err)
	}
	if _, err := first.Exec(t.Context(), `INSERT INTO a VALUES (md5('x')::uuid, 'a', '')`); err != nil {
		t.Fatal(err)
	}
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Exec(t.Context(), `INSERT INTO b VALUES (md5('x')::uuid, 'b', '')`); err != nil {
		t.Fatalf("the application's INSERT fails: %v", err)
	}
	if err := second.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := l.count(t); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}
