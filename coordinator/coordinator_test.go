package coordinator_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/coordinator"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const patience = 30 * time.Second

// tower is a doorbell that all coordinators of a test hear.
type tower struct {
	mu    sync.Mutex
	bells []*bell
}

type bell struct {
	tower *tower
	rung  chan struct{}
}

func (t *tower) hang() *bell {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &bell{t, make(chan struct{}, 1)}
	t.bells = append(t.bells, b)
	return b
}

func (b *bell) Ring() {
	b.tower.mu.Lock()
	defer b.tower.mu.Unlock()
	for _, other := range b.tower.bells {
		select {
		case other.rung <- struct{}{}:
		default:
		}
	}
}

func (b *bell) Rung() <-chan struct{} { return b.rung }

// cluster is a database that coordinators work on.
type cluster struct {
	url    string
	pool   *pgxpool.Pool
	leases *lease.Store
	tower  tower
	cfg    coordinator.Config
	ttl    time.Duration
}

func setup(t *testing.T, partitions int, cfg coordinator.Config) *cluster {
	t.Helper()
	c := &cluster{url: pgtest.Migrated(t, partitions), cfg: cfg, ttl: 10 * time.Second}
	c.pool = pgtest.Pool(t, c.url)
	var err error
	if c.leases, err = lease.NewStore(t.Context(), c.pool, "public"); err != nil {
		t.Fatal(err)
	}
	return c
}

// member is one running coordinator.
type member struct {
	*coordinator.Coordinator
	id   partition.WorkerID
	set  *lease.Set
	stop func() error
}

// join starts a coordinator; idle deliveries just wait for their end.
func (c *cluster) join(t *testing.T, deliver coordinator.Deliver) *member {
	t.Helper()
	if deliver == nil {
		deliver = func(ctx context.Context, _ *lease.Set) error { <-ctx.Done(); return nil }
	}
	workers, err := heartbeat.NewStore(pgtest.Pool(t, c.url), "public")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	beater, err := heartbeat.NewBeater(workers, heartbeat.Config{TTL: c.ttl, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := lease.NewKeeper(c.leases, beater.ID(), lease.Config{TTL: c.ttl, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.cfg
	cfg.Logger = log
	made, err := coordinator.New(cfg, beater, keeper, c.tower.hang(), deliver)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return &member{made, beater.ID(), keeper.Set(), stop}
}

// shares waits until the live leases are spread as wanted, sorted by nothing.
func (c *cluster) shares(t *testing.T, want map[partition.WorkerID]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got map[partition.WorkerID]int
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for ; ; <-pace.C {
		snapshot, err := c.leases.Snapshot(ctx)
		if err != nil {
			t.Fatalf("leases are spread %v, want %v: %v", got, want, err)
		}
		got = map[partition.WorkerID]int{}
		for _, r := range snapshot.Rows {
			if r.Held() {
				got[r.Owner]++
			}
		}
		if maps.Equal(got, want) {
			return
		}
	}
}

func TestWorkersShareAndHandOver(t *testing.T) {
	t.Parallel()
	for _, strategy := range []partition.Strategy{partition.Modulo, partition.Sticky} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			c := setup(t, 64, coordinator.Config{Strategy: strategy})
			a := c.join(t, nil)
			c.shares(t, map[uuid.UUID]int{a.id: 64})
			b := c.join(t, nil)
			c.shares(t, map[uuid.UUID]int{a.id: 32, b.id: 32})
			d := c.join(t, nil)
			if strategy == partition.Modulo {
				c.shares(t, map[uuid.UUID]int{a.id: 22, b.id: 21, d.id: 21})
			} else {
				c.balanced(t, 3)
			}
			start := time.Now()
			if err := b.stop(); err != nil {
				t.Errorf("the stop: %v", err)
			}
			c.balanced(t, 2)
			t.Logf("handed over in %s", time.Since(start))
			if row, err := c.workers(t); err != nil || row != 2 {
				t.Errorf("%d rows of workers are left, want 2: %v", row, err)
			}
		})
	}
}

// balanced waits until n workers hold all partitions, within one of each other.
func (c *cluster) balanced(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for ; ; <-pace.C {
		snapshot, err := c.leases.Snapshot(ctx)
		if err != nil {
			t.Fatalf("not balanced: %v", err)
		}
		counts := map[partition.WorkerID]int{}
		total := 0
		for _, r := range snapshot.Rows {
			if r.Held() {
				counts[r.Owner]++
				total++
			}
		}
		even := len(counts) == n && total == len(snapshot.Rows)
		for _, count := range counts {
			even = even && (count == total/n || count == total/n+1)
		}
		if even {
			return
		}
	}
}

func (c *cluster) workers(t *testing.T) (n int, err error) {
	t.Helper()
	err = c.pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_workers`).Scan(&n)
	return n, err
}

func TestMetricsFollowTheLeases(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	c := setup(t, 4, coordinator.Config{Registerer: registry})
	a := c.join(t, nil)
	c.shares(t, map[uuid.UUID]int{a.id: 4})
	c.cfg.Registerer = nil
	b := c.join(t, nil)
	c.shares(t, map[uuid.UUID]int{a.id: 2, b.id: 2})
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP outbox_lease_acquired_total Leases that this worker took.
# TYPE outbox_lease_acquired_total counter
outbox_lease_acquired_total 4
# HELP outbox_lease_lost_total Leases of this worker that ended because they could not be trusted any more.
# TYPE outbox_lease_lost_total counter
outbox_lease_lost_total 0
# HELP outbox_lease_owned Leases that this worker holds.
# TYPE outbox_lease_owned gauge
outbox_lease_owned 0
# HELP outbox_lease_released_total Leases that this worker gave back in good order.
# TYPE outbox_lease_released_total counter
outbox_lease_released_total 4
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "outbox_lease_acquired_total", "outbox_lease_lost_total",
		"outbox_lease_owned", "outbox_lease_released_total"); err != nil {
		t.Error(err)
	}
}

// busyWith enters the partition's lease when it is there, tells, and stays inside until it may finish.
func busyWith(id partition.ID, inside chan<- *lease.Lease, finish <-chan struct{}) coordinator.Deliver {
	return func(ctx context.Context, held *lease.Set) error {
		for {
			if l := held.Get(id); l != nil && l.Enter() {
				inside <- l
				<-finish
				l.Leave()
				<-ctx.Done()
				return nil
			}
			select {
			case <-held.Changed():
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// A partition is not released while work is inside: the heir waits for it.
func TestWorkInFlightIsFinishedBeforeTheHandover(t *testing.T) {
	t.Parallel()
	c := setup(t, 2, coordinator.Config{})
	inside, finish := make(chan *lease.Lease, 1), make(chan struct{})
	a := c.join(t, busyWith(1, inside, finish))
	work := <-inside
	b := c.join(t, nil)
	select { // partition 1 moves to b; a must drain it first
	case <-drainBegun(t, work):
	case <-time.After(patience):
		t.Fatal("no drain began")
	}
	snapshot, err := c.leases.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if row := snapshot.Rows[1]; row.Owner != a.id || row.Epoch != work.Epoch {
		t.Errorf("partition 1 went to %s while work was inside", row.Owner)
	}
	if work.Context().Err() != nil {
		t.Error("the lease ended while work was inside")
	}
	close(finish)
	c.shares(t, map[uuid.UUID]int{a.id: 1, b.id: 1})
}

// drainBegun closes when the lease lets no more work in.
func drainBegun(t *testing.T, l *lease.Lease) <-chan struct{} {
	t.Helper()
	begun := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	go func() {
		defer cancel()
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for ; !l.Draining(); <-pace.C {
			if ctx.Err() != nil {
				return
			}
		}
		close(begun)
	}()
	return begun
}

// A worker that dies without a word is replaced when its leases run out.
func TestACrashedWorkersPartitionsAreTakenOver(t *testing.T) {
	t.Parallel()
	c := setup(t, 8, coordinator.Config{})
	c.ttl = time.Second
	a := c.join(t, nil)
	c.shares(t, map[uuid.UUID]int{a.id: 8})
	// What a dead process leaves behind: a heartbeat and leases that run out.
	dead := uuid.Must(uuid.NewV7())
	if _, err := c.pool.Exec(t.Context(), `INSERT INTO outbox_workers (worker_id, hostname, pid, version, heartbeat_until)
		VALUES ($1, 'h', 1, 'v', clock_timestamp() + interval '1 s')`, dead); err != nil {
		t.Fatal(err)
	}
	a.Ring(c)
	c.shares(t, map[uuid.UUID]int{a.id: 4}) // half is given up for the dead one
	if _, err := c.leases.Acquire(t.Context(), dead, time.Second, []partition.ID{1, 3, 5, 7}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c.shares(t, map[uuid.UUID]int{a.id: 8})
	t.Logf("taken over after %s, TTL %s", time.Since(start), c.ttl)
}

// Ring rings the tower in the member's name.
func (m *member) Ring(c *cluster) { c.tower.hang().Ring() }

// When delivery fails, everything is released and the error is returned.
func TestAFailedDeliveryReleasesEverything(t *testing.T) {
	t.Parallel()
	c := setup(t, 4, coordinator.Config{})
	broken := errors.New("broken")
	fail := make(chan struct{})
	a := c.join(t, func(context.Context, *lease.Set) error { <-fail; return broken })
	c.shares(t, map[uuid.UUID]int{a.id: 4})
	close(fail)
	c.shares(t, map[uuid.UUID]int{})
	if err := a.stop(); !errors.Is(err, broken) {
		t.Errorf("Run returned %v, want %v", err, broken)
	}
}

func TestConfigIsRefusedByName(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]coordinator.Config{
		"Strategy":     {Strategy: "random"},
		"Interval":     {Interval: time.Millisecond},
		"Quiet":        {Quiet: time.Hour},
		"DrainTimeout": {DrainTimeout: -1},
	} {
		if err := cfg.WithDefaults().Validate(); !errors.Is(err, coordinator.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
