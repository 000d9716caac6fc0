package capture_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/postrider/postrider/outbox/capture"
	"github.com/postrider/postrider/outbox/schema"
)

// Who writes to the table needs no right on the outbox, and decides nothing: the trigger runs as the table's owner, with names of its own.
func TestAWriterNeedsNoRightOnTheOutbox(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	owner, writer := l.role(t), l.role(t)
	l.run(t, `CREATE SCHEMA shop AUTHORIZATION `+owner, `GRANT USAGE, CREATE ON SCHEMA shop TO `+writer)
	l.as(t, owner).run(t, `CREATE TABLE shop.orders (id int PRIMARY KEY, v text)`, `GRANT INSERT ON shop.orders TO `+writer)
	_, err := l.Capture(t.Context(), capture.Capture{Table: "shop.orders"}, capture.Options{})
	wantRefused(t, err, "GRANT USAGE ON SCHEMA", "GRANT EXECUTE ON FUNCTION", owner)
	l.run(t, `GRANT EXECUTE ON FUNCTION outbox_append_bytes TO `+owner)

	_, err = l.as(t, writer).Capture(t.Context(), capture.Capture{Table: "shop.orders"}, capture.Options{})
	wantRefused(t, err, "is owned by "+owner)
	l.as(t, owner).capture(t, capture.Capture{Table: "shop.orders"})

	w := l.as(t, writer)
	w.run(t, `CREATE FUNCTION shop.row_to_json(shop.orders) RETURNS json LANGUAGE plpgsql AS 'BEGIN RAISE ''planted overload''; END'`,
		`CREATE FUNCTION shop.convert_to(text, text) RETURNS bytea LANGUAGE plpgsql AS 'BEGIN RAISE ''planted overload''; END'`,
		`SET search_path = shop, public, pg_catalog; INSERT INTO shop.orders VALUES (1, 'v')`)
	l.tells(t, `orders shop.orders:1 orders.inserted {"new":{"id":1,"v":"v"}}`)
	_, err = w.Exec(t.Context(), `SELECT outbox_append('shop.orders:1', 'orders.deleted', '{}')`)
	wantCode(t, err, "42501")

	// The function on a table of the writer's own would say whatever the writer likes in the name of this one.
	w.run(t, `CREATE TABLE shop.forged (id int PRIMARY KEY, v text)`)
	_, err = w.Exec(t.Context(), `CREATE TRIGGER forge AFTER INSERT ON shop.forged FOR EACH ROW EXECUTE FUNCTION shop.postrider_capture_orders()`)
	wantCode(t, err, "42501")
}

// Default privileges give others no function of a table, and one that is given to them all the same speaks for no other table.
func TestAFunctionSpeaksForItsTableAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	other := l.role(t)
	l.run(t, `CREATE SCHEMA shop`, `GRANT USAGE, CREATE ON SCHEMA shop TO `+other, `ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT EXECUTE ON FUNCTIONS TO `+other,
		`CREATE TABLE shop.orders (id int PRIMARY KEY)`, `CREATE TABLE shop.queue (id uuid PRIMARY KEY, stream text)`)
	l.capture(t, capture.Capture{Table: "shop.orders"})
	l.adopt(t, capture.Adoption{Table: "shop.queue", Map: map[string]string{"id": "event_id", "stream": "stream_id+payload"}, Type: "t", NoImport: true})
	o := l.as(t, other)
	o.run(t, `CREATE TABLE shop.forged (id int PRIMARY KEY)`, `CREATE TABLE shop.forged_queue (id uuid PRIMARY KEY, stream text)`)
	for table, function := range map[string]string{"forged": "postrider_capture_orders", "forged_queue": "postrider_adopt_queue"} {
		hang := `CREATE TRIGGER forge AFTER INSERT ON shop.` + table + ` FOR EACH ROW EXECUTE FUNCTION shop.` + function + `()`
		_, err := o.Exec(t.Context(), hang)
		wantCode(t, err, "42501")
		l.run(t, `GRANT EXECUTE ON FUNCTION shop.`+function+` TO `+other)
		o.run(t, hang)
	}
	_, err := o.Exec(t.Context(), `INSERT INTO shop.forged VALUES (1)`)
	wantCode(t, err, "42501")
	_, err = o.Exec(t.Context(), `INSERT INTO shop.forged_queue VALUES (gen_random_uuid(), 's')`)
	wantCode(t, err, "42501")
	l.tells(t)
	l.run(t, `DROP TABLE shop.forged, shop.forged_queue`)
}

// Who may write to the table cannot keep its changes from being published; who has that right can.
func TestAWriterCannotKeepChangesBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	writer := l.role(t)
	l.run(t, `CREATE TABLE orders (id int PRIMARY KEY)`, `GRANT INSERT ON orders TO `+writer)
	l.capture(t, capture.Capture{Table: "orders"})
	l.as(t, writer).run(t, `SELECT set_config('postrider.replaying', pg_current_xact_id()::text, true); INSERT INTO orders VALUES (1)`)
	l.tells(t, `orders public.orders:1 orders.inserted {"new":{"id":1}}`)
	l.run(t, `SELECT outbox_without_enqueue(); INSERT INTO orders VALUES (2)`)
	if n := one[int](t, l, `SELECT count(*) FROM events WHERE audit_only`); n != 1 {
		t.Errorf("%d events are not published, want 1", n)
	}
}

// A superuser who runs the command lends the trigger nothing.
func TestTheTriggerRunsAsTheTablesOwner(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	owner := l.role(t)
	l.run(t, `CREATE SCHEMA shop AUTHORIZATION `+owner, `GRANT EXECUTE ON FUNCTION outbox_append_bytes TO `+owner)
	l.as(t, owner).run(t, `CREATE TABLE shop.orders (id int PRIMARY KEY)`)
	l.capture(t, capture.Capture{Table: "shop.orders"})
	if got := one[string](t, l, `SELECT proowner::regrole::text FROM pg_proc WHERE proname = 'postrider_capture_orders'`); got != owner {
		t.Errorf("the function runs as %s, want %s", got, owner)
	}
	l.as(t, owner).run(t, `INSERT INTO shop.orders VALUES (1)`)
	if n := one[int](t, l, `SELECT count(*) FROM events`); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// A table that is written to is not waited for without end, and the outbox stays while a table appends to it.
func TestTablesInUse(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE orders (id int PRIMARY KEY)`)
	tx, err := l.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `INSERT INTO orders VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	_, err = l.Capture(t.Context(), capture.Capture{Table: "orders"}, capture.Options{LockTimeout: 10 * time.Millisecond})
	wantCode(t, err, "55P03")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.capture(t, capture.Capture{Table: "orders"})
	m, err := schema.New(schema.Config{DatabaseURL: l.url, Force: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Down(t.Context()); !errors.Is(err, schema.ErrCaptured) {
		t.Errorf("the outbox is removed under a table that appends to it: %v", err)
	}
	if _, err := l.Drop(t.Context(), capture.Captured, "orders", capture.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := m.Down(t.Context()); err != nil {
		t.Errorf("migrate down: %v", err)
	}
}
