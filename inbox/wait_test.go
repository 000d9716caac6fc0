package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const patience = 60 * time.Second

// waitFor waits until a query gives true.
func waitFor(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var done bool
		if err := pool.QueryRow(ctx, sql, args...).Scan(&done); err != nil {
			t.Fatalf("waiting for %s: %v", sql, err)
		}
		if done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not become true", sql)
		case <-ticker.C:
		}
	}
}
