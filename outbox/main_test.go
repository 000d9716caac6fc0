package outbox_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func producer(t testing.TB, cfg outbox.Config) *outbox.Producer {
	t.Helper()
	p, err := outbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// appendAll appends in a transaction of its own.
func appendAll(ctx context.Context, pool *pgxpool.Pool, p *outbox.Producer, events ...outbox.Event) (appended []outbox.Appended, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		appended, err = p.AppendTx(ctx, tx, events...)
		return err
	})
	return appended, err
}

func one[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}
