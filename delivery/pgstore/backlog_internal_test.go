package pgstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// The chart is read every second, and the table holds a week: only the minutes that
// are asked for may be read.
func TestTheThroughputOfAnHourDoesNotReadTheWeek(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 64))
	_, err := pool.Exec(ctx, `INSERT INTO outbox_throughput (minute, partition_key, published)
		SELECT date_trunc('minute', now()) - m * interval '1 minute', p, m FROM generate_series(0, 1500) AS m, generate_series(0, 63) AS p`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `ANALYZE outbox_throughput`); err != nil {
		t.Fatal(err)
	}
	store, err := New(ctx, pool, "public", Relation{Name: "events"})
	if err != nil {
		t.Fatal(err)
	}
	minutes, err := store.Throughput(ctx, 60)
	if err != nil || len(minutes) != 60 {
		t.Fatalf("%d minutes, %v", len(minutes), err)
	}
	for i, m := range minutes[:59] { // the running minute may have begun meanwhile
		if m.Published/64 < int64(58-i) || m.Published/64 > int64(60-i) {
			t.Errorf("minute %d has %d", i, m.Published)
		}
	}
	rows, err := pool.Query(ctx, "EXPLAIN (ANALYZE) "+strings.ReplaceAll(store.sql.Throughput.Text, "$1::int", "60"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); strings.Contains(text, "Seq Scan") || !strings.Contains(text, "outbox_throughput_pkey") {
		t.Errorf("the table is read whole:\n%s", text)
	} else if strings.Contains(text, "JIT") {
		t.Errorf("sixty lookups are compiled first:\n%s", text)
	}
}
