package capture_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/capture"
)

// Watermill's table is one topic, in the order of its offsets.
func TestAWatermillTableIsAdopted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE watermill_orders ("offset" bigserial, "uuid" varchar(36) NOT NULL, created_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
			payload json DEFAULT NULL, metadata json DEFAULT NULL, transaction_id xid8 NOT NULL, PRIMARY KEY (transaction_id, "offset"))`,
		`INSERT INTO watermill_orders ("offset", uuid, created_at, payload, metadata, transaction_id) VALUES
			(2, 'ee8e1b0c-0000-4000-8000-000000000002', '2026-01-02 03:04:05', '{"n" : 2}', '{"correlation_id": "c"}', '7'),
			(1, 'short-1', '2026-01-02 03:04:06', '{"n": 1}', '{}', '8')`)
	l.adopt(t, capture.Adoption{Table: "watermill_orders", Preset: "watermill"})
	l.run(t, `INSERT INTO watermill_orders (uuid, payload, metadata, transaction_id) VALUES ('short-3', NULL, NULL, pg_current_xact_id())`)
	l.tells(t, `orders orders message {"n": 1}`, `orders orders message {"n" : 2}`, `orders orders message `)
	if got := one[string](t, l, `SELECT string_agg(coalesce(metadata -> 'headers' ->> 'correlation_id', '-'), ' ' ORDER BY sequence) FROM events`); got != "- c -" {
		t.Errorf("headers %s", got)
	}
	if !one[bool](t, l, `SELECT occurred_at = '2026-01-02 03:04:05Z' FROM events WHERE event_id = 'ee8e1b0c-0000-4000-8000-000000000002'`) {
		t.Error("another id, or another time")
	}
}

// What was imported is not imported again, whatever the id, and a row that was deleted by its trigger is none.
func TestAdoptingAgainDoublesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int NOT NULL, kind text, body bytea, meta jsonb, tenant text, sent_at timestamptz)`,
		`INSERT INTO queue (customer, kind, body, sent_at) VALUES (7, 'old', 'sent', now()), (7, 'first', '\x00ff', NULL)`)
	a := capture.Adoption{
		Table: "public.queue", Topic: "shop", Pending: "sent_at", Delete: true,
		Map: map[string]string{"id": "event_id", "customer": "stream_id+partition_key", "kind": "type", "body": "payload", "meta": "metadata", "tenant": "tenant_id"},
	}
	if dry, err := l.Adopt(t.Context(), a, capture.Options{DryRun: true}); err != nil || dry.Waiting != 1 || one[int](t, l, `SELECT count(*) FROM pg_trigger WHERE tgname LIKE '00\_%'`) != 0 {
		t.Fatalf("dry run: %+v, %v", dry, err)
	}
	if done := l.adopt(t, a); done.Waiting != 1 || done.Imported != 1 {
		t.Errorf("%d of %d were imported, want 1 of 1", done.Imported, done.Waiting)
	}
	l.run(t, `INSERT INTO queue (customer, kind, body, meta, tenant) VALUES (7, 'second', 'x', '{"correlation_id": "c"}', 'acme')`)
	if got := one[string](t, l, `SELECT string_agg(format('%s %s %s %s %s', topic, stream_id, event_type, payload, coalesce(tenant_id, '-')), '; ' ORDER BY sequence) FROM events`); got !=
		`shop 7 first \x00ff -; shop 7 second \x78 acme` {
		t.Errorf("events: %s", got)
	}
	if left := one[string](t, l, `SELECT string_agg(kind, ' ') FROM queue`); left != "old" {
		t.Errorf("the table holds %s", left)
	}
	a.Delete = false
	if _, err := l.Adopt(t.Context(), a, capture.Options{Replace: true}); err != nil {
		t.Fatal(err)
	}
	l.run(t, `INSERT INTO queue (customer, kind, body) VALUES (7, 'third', '')`)
	done, err := l.Adopt(t.Context(), a, capture.Options{Replace: true})
	if err != nil || done.Waiting != 1 || done.Imported != 0 {
		t.Errorf("%d of %d were imported again: %v", done.Imported, done.Waiting, err)
	}
	if n := one[int](t, l, `SELECT count(*) FROM events`); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
}

// A row that was committed while the trigger waited for its writer becomes an event, whatever the database's isolation is by default.
func TestNoRowIsLostWhateverTheIsolation(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text, body bytea)`,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''serializable''', current_database()); END $$`)
	writer, err := l.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Rollback(t.Context())
	if _, err := writer.Exec(t.Context(), `INSERT INTO queue (kind, body) VALUES ('late', 'x')`); err != nil {
		t.Fatal(err)
	}
	later := labAt(t, l.url, pgtest.Pool(t, l.url)) // its sessions have the default
	adopted := make(chan error, 1)
	go func() {
		_, err := later.Adopt(t.Context(), capture.Adoption{
			Table: "public.queue", Topic: "shop", Map: map[string]string{"id": "event_id+stream_id", "kind": "type", "body": "payload"},
		}, capture.Options{LockTimeout: clustertest.Patience})
		adopted <- err
	}()
	clustertest.Until(t, "the trigger waits for the writer", func(ctx context.Context) (waits bool, err error) {
		select {
		case err := <-adopted:
			return false, fmt.Errorf("it did not wait: %w", err)
		default:
		}
		return waits, l.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'queue'::regclass)`).Scan(&waits)
	}, nil)
	if err := errors.Join(writer.Commit(t.Context()), <-adopted); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, l, `SELECT coalesce(string_agg(event_type, ' '), 'none') FROM events`); got != "late" {
		t.Errorf("events: %s", got)
	}
}

// A queue holds more than events: of the rows with the values that were named alone an event is made, from keys of a JSON column.
func TestOnlyTheRowsThatWereNamedAreAdopted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE jobs (id bigserial PRIMARY KEY, kind text NOT NULL, args jsonb, done_at timestamptz)`,
		`INSERT INTO jobs (kind, args, done_at) VALUES ('publish', '{"of": "a", "n": 1}', now())`,
		`INSERT INTO jobs (kind, args) VALUES ('mail', '{}'), ('publish', '{"of": "a", "n": 2}'), ('tell', '{"of": "b", "n": 3}')`)
	a := capture.Adoption{
		Table: "jobs", Pending: "done_at", Delete: true,
		Map: map[string]string{"id": "event_id", "args.of": "stream_id", "kind": "type", "args": "payload"},
	}
	_, err := l.Adopt(t.Context(), a, capture.Options{})
	wantRefused(t, err, "row 2 ", "no stream", "--where") // a mail is of none
	a.Where = map[string]string{"kind": "publish+tell"}
	done := l.adopt(t, a)
	if done.Waiting != 2 {
		t.Errorf("%d rows waited, want 2", done.Waiting)
	}
	l.run(t, `INSERT INTO jobs (kind, args) VALUES ('mail', '{}'), ('tell', '{"of": "a", "n": 4}')`)
	l.tells(t, `default a publish {"n": 2, "of": "a"}`, `default b tell {"n": 3, "of": "b"}`, `default a tell {"n": 4, "of": "a"}`)
	if left := one[string](t, l, `SELECT string_agg(kind, ' ' ORDER BY id) FROM jobs`); left != "publish mail mail" {
		t.Errorf("the table holds %s", left)
	}
}

// Each row is in what the other relay reads, or has an event: the table leaves the publication with the trigger, and comes back with its end.
func TestATableLeavesThePublicationOfAnotherRelay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE other (id int)`, `CREATE TABLE queue (id uuid PRIMARY KEY, stream text)`, `CREATE PUBLICATION theirs FOR TABLE queue, other`)
	const published = `SELECT coalesce(string_agg(tablename, ' ' ORDER BY tablename), '') FROM pg_publication_tables WHERE pubname = 'theirs'`
	wantPublished := func(want string) {
		t.Helper()
		if got := one[string](t, l, published); got != want {
			t.Errorf("published is %q, want %q", got, want)
		}
	}
	o := capture.Options{Publication: "theirs"}
	a := capture.Adoption{Table: "queue", Map: map[string]string{"id": "event_id", "stream": "stream_id+payload"}, Type: "t", NoImport: true}
	for _, step := range []struct {
		kind  capture.Purpose
		begin func() error
	}{
		{capture.Adopted, func() error { _, err := l.Adopt(t.Context(), a, o); return err }},
		{capture.Captured, func() error { _, err := l.Capture(t.Context(), capture.Capture{Table: "queue"}, o); return err }},
	} {
		if err := step.begin(); err != nil {
			t.Fatal(err)
		}
		wantPublished("other")
		if _, err := l.Drop(t.Context(), step.kind, "queue", o); err != nil {
			t.Fatal(err)
		}
		wantPublished("other queue")
	}
	l.run(t, `CREATE PUBLICATION everything FOR ALL TABLES`)
	_, err := l.Adopt(t.Context(), a, capture.Options{Publication: "everything"})
	wantCode(t, err, "55000")
	if !strings.Contains(err.Error(), "FOR TABLE") || one[int](t, l, `SELECT count(*) FROM pg_trigger WHERE tgname LIKE '00\_%'`) != 0 {
		t.Errorf("it says %v", err)
	}
	_, err = l.Adopt(t.Context(), a, capture.Options{Publication: "nobodys"})
	wantCode(t, err, "42704")
	if strings.Contains(err.Error(), "FOR TABLE") {
		t.Errorf("of one that is not there it says %v", err)
	}
}

// A row that cannot be an event leaves everything as it was.
func TestAFailedImportChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n serial, stream text, body text)`,
		`INSERT INTO queue (stream, body) SELECT 's' || n % 2, n FROM generate_series(1, 300) AS n`, `INSERT INTO queue (stream, body) VALUES (NULL, '')`)
	a := capture.Adoption{Table: "queue", Map: map[string]string{"id": "event_id", "stream": "stream_id", "body": "payload"}, Type: "t"}
	_, err := l.Adopt(t.Context(), a, capture.Options{})
	wantRefused(t, err, "number 251 to 301", "no stream", "--stream")
	if n := one[int](t, l, `SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'postrider\_%')`); n != 0 {
		t.Errorf("%d events and functions are left", n)
	}
	l.run(t, `DELETE FROM queue WHERE stream IS NULL`)
	l.adopt(t, a)
	if !one[bool](t, l, `SELECT count(*) = 300 AND bool_and(stream_version = (convert_from(payload, 'UTF8')::int + 1) / 2) FROM events`) {
		t.Errorf("the order is another")
	}
}

func TestWhatCannotBeAdoptedIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id uuid NOT NULL UNIQUE, stream text, kind text, body text, at text)`)
	whole := func(more ...string) map[string]string {
		m := map[string]string{"id": "event_id", "stream": "stream_id", "kind": "type", "body": "payload"}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	for _, c := range []struct {
		capture.Adoption
		says []string
	}{
		{capture.Adoption{}, []string{"--map", "no column becomes"}},
		{capture.Adoption{Preset: "kafka"}, []string{"--preset", "debezium, watermill"}},
		{capture.Adoption{Preset: "debezium"}, []string{"--map", "no column aggregateid"}},
		{capture.Adoption{Map: whole("at", "when")}, []string{"--map", "no field when", "occurred_at"}},
		{capture.Adoption{Map: whole("at", "payload")}, []string{"--map", "two columns become payload"}},
		{capture.Adoption{Map: whole("at", "occurred_at")}, []string{"--map", "at=occurred_at", "timestamp"}},
		{capture.Adoption{Map: whole("stream", "tenant_id")}, []string{"--map", "stream_id", "--stream"}},
		{capture.Adoption{Map: whole(), Topic: "a\tb"}, []string{"--topic", "control"}},
		{capture.Adoption{Map: whole()}, []string{"--order", "ctid", "--no-import"}},
		{capture.Adoption{Map: whole(), Order: []string{"no"}}, []string{"--order", "no column no"}},
		{capture.Adoption{Map: whole(), Order: []string{"ctid"}, Pending: "no"}, []string{"--pending", "no column no"}},
		{capture.Adoption{Map: whole(), Where: map[string]string{"no": "x"}}, []string{"--where", "no column no"}},
		{capture.Adoption{Map: whole("body.at", "occurred_at")}, []string{"--map", "no column body.at"}},
		{capture.Adoption{Map: whole(), Order: []string{"ctid"}, Delete: true}, []string{"--delete", "primary key"}},
	} {
		c.Table = "queue"
		_, err := l.Adopt(t.Context(), c.Adoption, capture.Options{})
		wantRefused(t, err, c.says...)
	}
	owner := l.role(t)
	l.run(t, `ALTER TABLE queue OWNER TO `+owner, `GRANT CREATE ON SCHEMA public TO `+owner, `GRANT EXECUTE ON FUNCTION outbox_append_bytes, outbox_append_adopted TO `+owner)
	_, err := l.as(t, owner).Adopt(t.Context(), capture.Adoption{Table: "queue", Map: whole(), Order: []string{"ctid"}}, capture.Options{})
	wantRefused(t, err, "--no-import", "GRANT SELECT")
	if _, err := l.as(t, owner).Adopt(t.Context(), capture.Adoption{Table: "queue", Map: whole(), NoImport: true}, capture.Options{}); err != nil {
		t.Error(err)
	}
}

// Rows become events of a type that is checked only if they fit: the writer's statement fails otherwise, and so does an import.
func TestRowsFitTheSchemaOfTheirType(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE orders (id int PRIMARY KEY, amount numeric)`,
		`CREATE TABLE queue (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n serial, stream text, body text)`,
		`INSERT INTO queue (stream, body) VALUES ('s', '{"amount": 1}'), ('s', '{"amount": "1"}')`,
		`INSERT INTO outbox_types (event_type, json_schema, checked)
		 SELECT k, '{"properties": {"new": {"properties": {"amount": {"maximum": 10}}}, "amount": {"type": "number"}}}', true FROM unnest('{orders.inserted,queued}'::text[]) AS k`)
	l.capture(t, capture.Capture{Table: "orders"})
	l.run(t, `INSERT INTO orders VALUES (1, 10)`, `UPDATE orders SET amount = 11`)
	_, err := l.Exec(t.Context(), `INSERT INTO orders VALUES (2, 1), (3, 11)`)
	wantCode(t, err, "OB002")
	if !strings.Contains(err.Error(), `'orders.inserted' does not fit its schema at "/new/amount": maximum: must be at most 10`) {
		t.Errorf("it says %v", err)
	}
	a := capture.Adoption{Table: "queue", Map: map[string]string{"id": "event_id", "stream": "stream_id", "body": "payload"}, Type: "queued"}
	_, err = l.Adopt(t.Context(), a, capture.Options{})
	wantCode(t, err, "OB002")
	if n := one[int](t, l, `SELECT (SELECT count(*) FROM events) * 10 + (SELECT count(*) FROM orders)`); n != 21 {
		t.Errorf("%d: there are other events and rows than two and one", n)
	}
	l.run(t, `UPDATE queue SET body = '{"amount": 2}' WHERE n = 2`)
	l.adopt(t, a)
	_, err = l.Exec(t.Context(), `INSERT INTO queue (stream, body) VALUES ('s', 'x')`)
	wantCode(t, err, "OB002")
}

// A row whose event was dropped with its part had one: who adopts again is told so, instead of telling it twice.
func TestARowWhoseEventWasDroppedIsNotToldAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id bigserial PRIMARY KEY, stream text, body text)`, `INSERT INTO queue (stream, body) VALUES ('ended', '1'), ('lives', '2')`)
	a := capture.Adoption{Table: "queue", Map: map[string]string{"id": "event_id", "stream": "stream_id", "body": "payload"}, Type: "queued"}
	l.adopt(t, a)
	l.run(t, `SELECT outbox_events_bound()`, `ALTER TABLE events VALIDATE CONSTRAINT events_bound`, `SELECT outbox_events_split()`, `SELECT outbox_events_begin()`, `INSERT INTO queue (stream, body) VALUES ('lives', '3')`,
		`DELETE FROM outbox WHERE global_sequence < 1000000000000`)
	if why := one[*string](t, l, `SELECT outbox_events_drop(0)`); why != nil {
		t.Fatal(*why)
	}
	for _, left := range []string{"ended", "lives"} {
		_, err := l.Adopt(t.Context(), a, capture.Options{Replace: true})
		wantRefused(t, err, `"`+left+`"`, "dropped", "--no-import", "--where")
		l.run(t, `DELETE FROM queue WHERE body < '3' AND stream = '`+left+`'`)
	}
	done, err := l.Adopt(t.Context(), a, capture.Options{Replace: true})
	if err != nil || done.Waiting != 1 || done.Imported != 0 {
		t.Errorf("%d of %d were imported again: %v", done.Imported, done.Waiting, err)
	}
}
