package delivery_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func run(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func latency(t *testing.T, store *delivery.Store) delivery.Latency {
	t.Helper()
	l, err := store.Latency(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLatencyIsOfTheLastMinutes(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 1))
	store, err := delivery.NewStore(t.Context(), pool, "public", delivery.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	if l := latency(t, store); l != (delivery.Latency{}) {
		t.Errorf("of nothing: %+v", l)
	}
	run(t, pool, `SELECT outbox_append('s', 'thing.done', '{}') FROM generate_series(1, 8)`)
	run(t, pool, `UPDATE events SET recorded_at = '2026-01-01Z'`)
	const batch = `INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, message_count, published_at, generations) VALUES `
	// Long ago, and after a person acted: neither says how long events take now.
	run(t, pool, batch+`(0, 1, 1, 1, 1, clock_timestamp() - interval '6 minutes', NULL), (0, 1, 2, 2, 1, clock_timestamp(), '{"2": 1}')`)
	if l := latency(t, store); l.Samples != 0 {
		t.Errorf("of what does not count: %+v", l)
	}
	run(t, pool, batch+`(0, 1, 3, 6, 4, clock_timestamp(), NULL), (0, 1, 7, 7, 1, clock_timestamp(), NULL)`)
	run(t, pool, `UPDATE events SET recorded_at = d.published_at - CASE sequence WHEN 3 THEN interval '300 ms' WHEN 6 THEN '100 ms' ELSE '200 ms' END
		FROM outbox_deliveries AS d WHERE sequence BETWEEN d.first_sequence AND d.last_sequence AND sequence IN (3, 6, 7)`)
	// The first and the last event of the one batch, and the only one of the other.
	l := latency(t, store)
	if l.Samples != 3 || l.P50.Round(time.Millisecond) != 200*time.Millisecond || l.P99.Round(time.Millisecond) != 298*time.Millisecond {
		t.Errorf("it is %+v", l)
	}
}

func TestBacklogCountsBlockedStreams(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 1))
	store, err := delivery.NewStore(t.Context(), pool, "public", delivery.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, pool, `SELECT outbox_append('s' || n % 3, 'thing.done', '{}') FROM generate_series(0, 8) AS n`)
	run(t, pool, `UPDATE outbox SET parked = true, blocked = stream_id <> 's2', attempts = CASE stream_id WHEN 's2' THEN 1 ELSE 0 END`)
	backlog, err := store.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p := backlog.Partitions[0]; p.Blocked != 6 || p.BlockedStreams != 2 || p.Failed != 3 {
		t.Errorf("the backlog is %+v", p)
	}
}
