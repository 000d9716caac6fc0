package capture_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/outbox/capture"
)

// Columns of an adopted table are renamed and get other types, also in sessions that wrote before: each row is its event, and goes.
func TestAnAdoptedTablesColumnsBecomeOthers(t *testing.T) {
	t.Parallel()
	for name, alters := range map[string]string{
		"renamed":    `ALTER TABLE queue RENAME id TO number; ALTER TABLE queue RENAME args TO more; ALTER TABLE queue RENAME body TO told; ALTER TABLE queue RENAME kind TO k; ALTER TABLE queue RENAME at TO since`,
		"other type": `ALTER TABLE queue ALTER id TYPE bigint, ALTER body TYPE bytea USING convert_to(body, 'UTF8'), ALTER args TYPE jsonb, ALTER kind TYPE varchar(9), ALTER at TYPE timestamptz`,
		"as text":    `ALTER TABLE queue ALTER id TYPE text, ALTER args TYPE text, ALTER at TYPE text USING 'some day'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.run(t, `CREATE TABLE queue (id int PRIMARY KEY, args json, body text, kind text, at timestamp)`)
			l.adopt(t, capture.Adoption{
				Table: "queue", Type: "t", Delete: true, NoImport: true, Where: map[string]string{"kind": "event"},
				Map: map[string]string{"id": "event_id", "args.of": "stream_id", "body": "payload", "at": "occurred_at"},
			})
			conn, err := l.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			insert := func(n int) {
				t.Helper()
				if _, err := conn.Exec(t.Context(), fmt.Sprintf(`INSERT INTO queue VALUES ('%d', '{"of":"s"}', 'x', 'event', '2026-01-02'), (-%[1]d, '{}', 'y', 'mail', NULL)`, n)); err != nil {
					t.Errorf("the application's INSERT fails: %v", err)
				}
			}
			insert(1)
			l.run(t, alters)
			insert(2)
			insert(3)
			l.tells(t, "default s t x", "default s t x", "default s t x")
			if n := one[int](t, l, `SELECT count(*) FROM queue`); n != 3 {
				t.Errorf("%d rows are left, want those that are no events", n)
			}
			if name == "renamed" {
				if list, err := l.List(t.Context()); err != nil || len(list[0].Flaws) != 0 {
					t.Errorf("listed: %+v, %v", list, err)
				}
				l.run(t, `ALTER TABLE queue DROP COLUMN more`)
				_, err = conn.Exec(t.Context(), `INSERT INTO queue VALUES (9, 'x', 'event')`)
				wantCode(t, err, "55000")
				if list, err := l.List(t.Context()); err != nil || len(list[0].Flaws) != 1 || !strings.Contains(list[0].Flaws[0].Problem, "args") {
					t.Errorf("listed: %+v, %v", list, err)
				}
			}
		})
	}
}

// Keys of types that an extension brings have their operators in its schema: the row goes all the same, and by its index.
func TestKeysOfAnExtensionsTypes(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"citext", "ltree", "hstore"} {
		l := newLab(t)
		l.run(t, `CREATE SCHEMA ext`)
		if _, err := l.Exec(t.Context(), `CREATE EXTENSION `+kind+` SCHEMA ext`); err != nil {
			t.Logf("%s: %v", kind, err)
			continue
		}
		l.run(t, `CREATE TABLE queue (id ext.`+kind+` PRIMARY KEY, body text)`)
		l.adopt(t, capture.Adoption{Table: "queue", Stream: "s", Type: "t", Delete: true, NoImport: true, Map: map[string]string{"id": "event_id", "body": "payload"}})
		if _, err := l.Exec(t.Context(), `INSERT INTO queue SELECT (CASE WHEN $1 = 'hstore' THEN '"A"=>"b"' ELSE 'A' END)::text::ext.`+kind+`, 'x'`, kind); err != nil {
			t.Errorf("%s: the application's INSERT fails: %v", kind, err)
		}
		if n := one[int](t, l, `SELECT count(*) FROM queue`); n != 0 {
			t.Errorf("%s: the row is left", kind)
		}
	}
}

// A table that has another owner takes rows as before: what its trigger may not remove stays, and that is named.
func TestAnAdoptedTableGetsAnotherOwner(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	owner, other := l.role(t), l.role(t)
	l.run(t, `CREATE TABLE queue (id int PRIMARY KEY, body text)`, `GRANT USAGE, CREATE ON SCHEMA public TO `+owner+`, `+other,
		`GRANT EXECUTE ON FUNCTION outbox_append_adopted TO `+owner, `ALTER TABLE queue OWNER TO `+owner)
	l.adopt(t, capture.Adoption{Table: "queue", Stream: "s", Type: "t", Delete: true, NoImport: true, Map: map[string]string{"id": "event_id", "body": "payload"}})
	l.run(t, `ALTER TABLE queue OWNER TO `+other)
	if _, err := l.Exec(t.Context(), `INSERT INTO queue VALUES (1, 'x')`); err != nil {
		t.Errorf("the application's INSERT fails: %v", err)
	}
	l.tells(t, "default s t x")
	if list, err := l.List(t.Context()); err != nil || len(list[0].Flaws) != 1 || !strings.Contains(list[0].Flaws[0].Problem, "rows stay") {
		t.Errorf("listed: %v, %v", list[0].Flaws, err)
	}
}

// Above READ COMMITTED a stream may have an event that a transaction does not see. It fails as such transactions do, with 40001, and works again.
func TestAStreamThatASnapshotDoesNotSee(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), stream text, body text)`, `CREATE TABLE lines (id int PRIMARY KEY, of int NOT NULL)`)
	l.adopt(t, capture.Adoption{Table: "queue", Map: map[string]string{"id": "event_id", "stream": "stream_id", "body": "payload"}, Type: "t", NoImport: true})
	l.capture(t, capture.Capture{Table: "lines", Key: []string{"of"}})
	for table, insert := range map[string]string{
		"adopted": `INSERT INTO queue (stream, body) VALUES ('s', 'x')`, "captured": `INSERT INTO lines VALUES ((random() * 1e9)::int, 7)`,
	} {
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			for again := range 2 {
				err := pgx.BeginTxFunc(t.Context(), l.Pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), `SELECT FROM events`); err != nil { // has its snapshot
						return err
					}
					if again == 0 {
						l.run(t, insert)
					}
					_, err := tx.Exec(t.Context(), insert)
					return err
				})
				if again == 0 {
					wantCode(t, err, "40001")
				} else if err != nil {
					t.Errorf("%s, %s, again: %v", table, level, err)
				}
			}
		}
	}
}

// A row that has more headers than a message may have costs its writer no more than one that has as many.
func TestManyHeadersAreAdopted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id text PRIMARY KEY, headers jsonb)`)
	l.adopt(t, capture.Adoption{Table: "queue", Stream: "s", Type: "t", NoImport: true, Map: map[string]string{"id": "event_id+payload", "headers": "headers"}})
	l.run(t, `SET statement_timeout = '20s'; INSERT INTO queue SELECT 'x', jsonb_object_agg('h' || n, 'v') FROM generate_series(1, 200000) AS n`)
	if n := one[int](t, l, `SELECT count(*) FROM events, jsonb_each(metadata -> 'headers')`); n != 1000 {
		t.Errorf("%d headers, want 1000", n)
	}
}
