package orms_test

import (
	"context"
	"strings"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/postrider/postrider/examples/orms"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// TestOrderAndEventAreOne places an order that is committed, and one whose commit the database refuses: of that neither is left.
func TestOrderAndEventAreOne(t *testing.T) {
	t.Parallel()
	type place func(context.Context, orms.Order) error
	for library, open := range map[string]func(t *testing.T, address string) place{
		"GORM": func(t *testing.T, address string) place {
			t.Helper()
			return withGORM(t, address, false)
		},
		"GORM, prepared": func(t *testing.T, address string) place {
			t.Helper()
			return withGORM(t, address, true)
		},
		"ent": func(t *testing.T, address string) place {
			t.Helper()
			driver := entsql.OpenDB(dialect.Postgres, drivers(t, address)["lib/pq"])
			return func(ctx context.Context, o orms.Order) error { return orms.PlaceWithEnt(ctx, driver, producer(t), o) }
		},
		"Bun": func(t *testing.T, address string) place {
			t.Helper()
			db := bun.NewDB(drivers(t, address)["bun"], pgdialect.New())
			return func(ctx context.Context, o orms.Order) error { return orms.PlaceWithBun(ctx, db, producer(t), o) }
		},
		"sqlc": func(t *testing.T, address string) place {
			t.Helper()
			pool := pgtest.Pool(t, address)
			return func(ctx context.Context, o orms.Order) error {
				return orms.PlaceWithSqlc(ctx, pool, orms.New(pool), producer(t), o)
			}
		},
	} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			address := pgtest.Migrated(t, 4)
			pool := pgtest.Pool(t, address)
			if _, err := pool.Exec(t.Context(), orms.Tables+`; INSERT INTO customers VALUES (7)`); err != nil {
				t.Fatal(err)
			}
			run := open(t, address)
			if err := run(t.Context(), orms.Order{Customer: 7, Amount: 12}); err != nil {
				t.Fatal(err)
			}
			if err := run(t.Context(), orms.Order{Customer: 8, Amount: 13}); err == nil || !strings.Contains(err.Error(), "orders_customer_fkey") {
				t.Errorf("an order of nobody: %v", err)
			}
			rows, err := pool.Query(t.Context(), `SELECT concat_ws(' ', o.id, o.customer, o.amount, '|', e.stream_id, e.stream_version, e.topic, e.event_type,
				convert_from(e.payload, 'UTF8'), e.sequence = r.global_sequence)
				FROM orders AS o FULL JOIN events AS e ON e.stream_id = 'order-' || o.id LEFT JOIN outbox_ready AS r ON r.global_sequence = e.sequence`)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pgx.CollectRows(rows, pgx.RowTo[string])
			const want = `1 7 12 | order-1 1 shop order.placed {"customer": 7, "amount": 12} t`
			if err != nil || len(got) != 1 || got[0] != want {
				t.Errorf("orders and events are %q, %v; want %q", got, err, want)
			}
		})
	}
}

func withGORM(t *testing.T, address string, prepared bool) func(context.Context, orms.Order) error {
	t.Helper()
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: drivers(t, address)["pgx"]}),
		&gorm.Config{Logger: logger.Discard, PrepareStmt: prepared})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, o orms.Order) error { return orms.PlaceWithGORM(ctx, db, producer(t), o) }
}
