package loop_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func run(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func latency(t *testing.T, store *pgstore.Store) pgstore.Latency {
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
	store, err := pgstore.New(t.Context(), pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	if l := latency(t, store); l != (pgstore.Latency{}) {
		t.Errorf("of nothing: %+v", l)
	}
	run(t, pool, `SELECT outbox_append('s', 'thing.done', '{}') FROM generate_series(1, 8)`)
	run(t, pool, `UPDATE events SET recorded_at = '2026-01-01Z'`)
	const batch = `INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, message_count, published_at, generations) VALUES `
	// Long ago, after a person acted, and before the clock stepped back: none says how long events take now.
	run(t, pool, batch+`(0, 1, 1, 1, 1, clock_timestamp() - interval '6 minutes', NULL), (0, 1, 2, 2, 1, clock_timestamp(), '{"2": 1}'),
		(0, 1, 8, 8, 1, clock_timestamp() + interval '1 hour', NULL)`)
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

// An event that was scheduled takes as long as it is late.
func TestLatencyLeavesOutWhatWasScheduled(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.append(t, "s", `1`, "available_at => clock_timestamp() + interval '1 second'")
	b.exec(t, `UPDATE events SET recorded_at = recorded_at - interval '1 hour'`)
	b.acquireAll(t, b.keeper)
	metrics := prometheus.NewRegistry()
	stop := b.start(t, b.relay(t, loop.Config{Registerer: metrics, PollInterval: 5 * time.Millisecond}))
	b.until(t, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`, 1)
	stop()
	if l := latency(t, b.store); l.Samples != 1 || l.P99 > 30*time.Minute {
		t.Errorf("of the history: %+v", l)
	}
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if h := f.GetMetric()[0].GetHistogram(); f.GetName() == "outbox_publish_latency_seconds" && (h.GetSampleCount() != 1 || h.GetSampleSum() > 1800) {
			t.Errorf("the histogram counts %d, %v seconds in all", h.GetSampleCount(), h.GetSampleSum())
		}
	}
}

func TestBacklogCountsBlockedStreams(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 1))
	store, err := pgstore.New(t.Context(), pool, "public", pgstore.Relation{})
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

func TestTheRateIsOfTheLastSeconds(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 1))
	store, err := pgstore.New(t.Context(), pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	rate := func() float64 {
		t.Helper()
		recent, err := store.Recent(t.Context(), 5*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return recent.PerSecond
	}
	if got := rate(); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	const batches = `INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, message_count, published_at)
		SELECT 0, 1, n, n, $1, clock_timestamp() - $2::interval FROM generate_series(1, $3::int) AS n`
	run := func(count int, ago string, n int) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), batches, count, ago, n); err != nil {
			t.Fatal(err)
		}
	}
	run(100_000, "30 s", 1)    // what was a minute ago is not now
	run(100_000, "-1 h", 2000) // nor what was before the clock stepped back
	run(40, "1 s", 10)
	if got := rate(); got != 40 {
		t.Errorf("400 events in ten seconds: %v", got)
	}
	run(1, "0 s", 2000) // as many as are looked at, all of them just now
	if got := rate(); got < 150 {
		t.Errorf("2,000 events in the last moments: %v", got)
	}
}

// Each second has what all partitions published in it, and where batches are too many to be looked at it is told since when they were.
func TestPublishedLatelyBySeconds(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	store, err := pgstore.New(t.Context(), pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	recent := func(within time.Duration) pgstore.Recent {
		t.Helper()
		r, err := store.Recent(t.Context(), within)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := recent(time.Minute); len(r.Seconds) > 0 || r.At.Sub(r.Since) != time.Minute {
		t.Errorf("of nothing: %v", r)
	}
	insert := func(first, last, count int, at time.Time) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), `INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence,
			message_count, published_at) SELECT n % 4, 1, n, n, $3, $4 FROM generate_series($1::int, $2) AS n`, first, last, count, at); err != nil {
			t.Fatal(err)
		}
	}
	base := recent(time.Minute).At.Truncate(time.Second).Add(-40 * time.Second)
	insert(1, 6, 5, base.Add(999*time.Millisecond))
	insert(7, 7, 3, base.Add(3*time.Second))
	insert(8, 8, 9, base.Add(-5*time.Minute))
	r := recent(2 * time.Minute)
	if want := []pgstore.Second{{At: base, Published: 30}, {At: base.Add(3 * time.Second), Published: 3}}; !slices.EqualFunc(r.Seconds, want, sameSecond) {
		t.Errorf("published %v, want %v", r.Seconds, want)
	}
	if r.At.Sub(r.Since) != 2*time.Minute {
		t.Errorf("everything is counted since %s before", r.At.Sub(r.Since))
	}
	insert(100, 2099, 1, base.Add(10*time.Second))
	if r = recent(2 * time.Minute); !r.Since.Equal(base.Add(10 * time.Second)) {
		t.Errorf("of too many batches they are counted since %s, want %s", r.Since, base.Add(10*time.Second))
	}
}

func sameSecond(a, b pgstore.Second) bool { return a.At.Equal(b.At) && a.Published == b.Published }
