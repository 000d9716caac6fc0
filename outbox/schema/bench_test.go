package schema_test

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// order is a schema of 13 values, and an order is one that fits.
const (
	order = `{"type": "object", "required": ["id", "customer", "currency", "total", "lines"], "additionalProperties": false, "properties": {
		"id": {"type": "integer", "minimum": 1}, "customer": {"type": "string", "pattern": "^c-[0-9]+$"}, "currency": {"enum": ["EUR", "USD"]},
		"total": {"type": "number", "minimum": 0}, "placed_at": {"type": "string"}, "lines": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/line"}}},
		"$defs": {"line": {"type": "object", "required": ["sku", "quantity"],
			"properties": {"sku": {"type": "string", "maxLength": 40}, "quantity": {"type": "integer", "minimum": 1}}}}}`
	anOrder = `{"id": 17, "customer": "c-4711", "currency": "EUR", "total": 129.95, "placed_at": "2026-01-02T03:04:05Z",
		"lines": [{"sku": "a-1", "quantity": 2}, {"sku": "b-2", "quantity": 1}]}`
)

// BenchmarkAppend is what an event costs in statements that append a thousand: by the way it is appended, with no types registered, with a
// hundred others of which twenty are checked, and with its own checked.
func BenchmarkAppend(b *testing.B) {
	conn := connect(b, pgtest.Migrated(b, 64))
	payload := literal(anOrder)
	for _, types := range []struct{ name, sql string }{
		{"no types", `SELECT`},
		{"other types", `INSERT INTO outbox_types (event_type, json_schema, checked) SELECT 'other-' || n, ` + literal(order) + `, n <= 20 FROM generate_series(1, 100) AS n`},
		{"checked", `INSERT INTO outbox_types (event_type, json_schema, checked) VALUES ('order.paid', ` + literal(order) + `, true)`},
	} {
		run(b, conn, `DELETE FROM outbox_types`)
		run(b, conn, types.sql)
		run(b, conn, `VACUUM ANALYZE outbox_types`)
		for _, way := range []struct{ name, sql string }{
			{"append", `SELECT outbox_append('s-' || n, 'order.paid', ` + payload + `) FROM generate_series(1, 1000) AS n`},
			{"one", `SELECT o.duplicate FROM generate_series(1, 1000) AS n, outbox_append_one('s-' || n, 'order.paid', ` + payload + `) AS o`},
			{"batch", `SELECT o.duplicate FROM generate_series(1, 10) AS b, LATERAL (SELECT array_agg('s-' || b * 100 + n) AS s, array_agg('order.paid'::text) AS t,
				array_agg(convert_to(` + payload + `, 'UTF8')) AS p FROM generate_series(1, 100) AS n) AS x, outbox_append_batch(x.s, x.t, x.p) AS o`},
		} {
			b.Run(fmt.Sprint(types.name, "/", way.name), func(b *testing.B) {
				run(b, conn, `TRUNCATE events, outbox`)
				for b.Loop() {
					run(b, conn, way.sql)
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "µs/event")
			})
		}
	}
}
