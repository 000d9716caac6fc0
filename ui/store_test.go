package ui_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

const ttl = 30 * time.Second

type stores struct {
	workers    *heartbeat.Store
	leases     *lease.Store
	deliveries *pgstore.Store
}

func newStores(t *testing.T, pool *pgxpool.Pool) stores {
	t.Helper()
	var s stores
	var err error
	if s.workers, err = heartbeat.NewStore(pool, "public"); err != nil {
		t.Fatal(err)
	}
	if s.leases, err = lease.NewStore(t.Context(), pool, "public"); err != nil {
		t.Fatal(err)
	}
	if s.deliveries, err = pgstore.New(t.Context(), pool, "public", pgstore.Relation{Name: "events"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPageOnPostgreSQL shows what the tables hold: two workers of which one owns
// three of four partitions, and five events that wait.
func TestPageOnPostgreSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	stores := newStores(t, pool)
	source, err := ui.NewSource(ui.SourceConfig{
		Workers: stores.workers, Leases: stores.leases, Deliveries: stores.deliveries,
		Strategy: partition.Modulo, HeartbeatTTL: ttl,
	})
	if err != nil {
		t.Fatal(err)
	}

	first, second := uuid.UUID{15: 1}, uuid.UUID{15: 2}
	for id, name := range map[uuid.UUID]string{first: `one<script>`, second: "two"} {
		worker := heartbeat.Worker{ID: id, Hostname: name, PID: 7, Version: "1", State: heartbeat.Active}
		if err := stores.workers.Beat(t.Context(), worker, ttl); err != nil {
			t.Fatal(err)
		}
	}
	if held, err := stores.leases.Acquire(t.Context(), first, ttl, []partition.ID{0, 1, 2}); err != nil || len(held) != 3 {
		t.Fatalf("acquired %d leases: %v", len(held), err)
	}
	for _, statement := range []string{
		`SELECT outbox_append('stream-' || n, 'created', '{}') FROM generate_series(1, 5) AS n`,
		`INSERT INTO outbox_throughput (minute, partition_key, published) VALUES (date_trunc('minute', clock_timestamp() - interval '5 minutes'), 1, 1234)`,
		`UPDATE outbox_partitions SET paused_at = clock_timestamp() WHERE partition_key = 2`,
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}

	server := serve(t, ui.Options{Source: source})
	summary := decode[struct {
		Pending    int64
		Oldest     float64 `json:"oldest_pending_age_seconds"`
		Published  int64   `json:"published_last_hour"`
		Workers    struct{ Active int }
		Partitions struct{ Total, Owned, Unowned, Paused int }
	}](t, call(t, server, http.MethodGet, "/api/v1/summary"))
	if summary.Pending != 5 || summary.Oldest <= 0 || summary.Published != 1234 || summary.Workers.Active != 2 {
		t.Errorf("summary %+v", summary)
	}
	if p := summary.Partitions; p.Total != 4 || p.Owned != 3 || p.Unowned != 1 || p.Paused != 1 {
		t.Errorf("partitions %+v", p)
	}

	workers := decode[struct {
		Workers []struct {
			Owned, Desired int
			Left           float64 `json:"heartbeat_left_seconds"`
			Age            float64 `json:"heartbeat_age_seconds"`
		}
	}](t, call(t, server, http.MethodGet, "/api/v1/workers")).Workers
	if len(workers) != 2 || workers[0].Owned != 3 || workers[0].Desired != 2 || workers[1].Owned != 0 || workers[1].Desired != 2 {
		t.Errorf("workers %+v", workers)
	}
	if w := workers[0]; w.Left <= 0 || w.Left > ttl.Seconds() || w.Age < 0 || w.Left+w.Age < ttl.Seconds()-1 {
		t.Errorf("the heartbeat has %v s left at an age of %v s", w.Left, w.Age)
	}
	if minutes := decode[struct{ Minutes []any }](t, call(t, server, http.MethodGet, "/api/v1/throughput")).Minutes; len(minutes) != 60 {
		t.Errorf("%d minutes, want 60", len(minutes))
	}

	page := call(t, server, http.MethodGet, "/")
	wantContains(t, page, "one&lt;script&gt;", "no owner", "paused", "1,234")
	if strings.Contains(page.text, "one<script>") {
		t.Error("the host name reached the page unescaped")
	}
}
