package capture_test

import (
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/capture"
)

// A stranger who may create in the outbox's schema neither gets what captured and adopted tables append, nor keeps them from being
// written to.
func TestWritersMeetNoStrangersFunction(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	conn, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	pgtest.PlantOverloads(t, conn.Conn(), "outbox_")
	l.run(t, `CREATE TABLE orders (id int PRIMARY KEY, v text)`, `CREATE TABLE box (id uuid PRIMARY KEY, payload jsonb, headers jsonb, at timestamp)`)
	l.run(t, `INSERT INTO box VALUES (gen_random_uuid(), '{"a":0}', '{"h":"0"}', now())`)
	l.capture(t, capture.Capture{Table: "orders", Old: true})
	l.adopt(t, capture.Adoption{
		Table: "box", Map: map[string]string{"id": "event_id", "payload": "payload", "headers": "headers", "at": "occurred_at"},
		Stream: "box", Type: "boxed", Order: []string{"at"},
	})
	l.run(t, `INSERT INTO orders VALUES (1, 'a')`, `UPDATE orders SET v = 'b'`, `DELETE FROM orders`,
		`INSERT INTO box VALUES (gen_random_uuid(), '{"a":1}', NULL, NULL)`)
	l.tells(t, `default box boxed {"a": 0}`, `orders public.orders:1 orders.inserted {"new":{"id":1,"v":"a"}}`,
		`orders public.orders:1 orders.updated {"old":{"id":1,"v":"a"},"new":{"id":1,"v":"b"}}`,
		`orders public.orders:1 orders.deleted {"old":{"id":1,"v":"b"}}`, `default box boxed {"a": 1}`)
}
