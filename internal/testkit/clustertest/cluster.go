package clustertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// DefaultPartitions is the number of partitions of a cluster that names none.
const DefaultPartitions = 64

// Config describes a cluster.
type Config struct {
	// Partitions defaults to DefaultPartitions.
	Partitions int
	// Flags are given to every worker.
	Flags []string
	// DatabaseURL names a migrated database. Defaults to a new one on the shared server.
	DatabaseURL string
	// NATS defaults to one new node.
	NATS *natstest.Server
	// Replicas of the stream, 1 or 3. Defaults to 1.
	Replicas int
	// NoBatches makes the stream without allow_atomic: workers then store messages one by one.
	NoBatches bool
	// NoStream leaves the stream to the workers, which then need --create-stream.
	NoStream bool
	// Proxied puts a proxy between the workers and the database, and one between them and each node of the broker.
	// Producers, the subscriber and the test itself stay in front of them.
	Proxied bool
	// Resized expects the number of partitions to change.
	Resized bool
}

// Cluster is a database, a broker, and the workers between them.
type Cluster struct {
	DatabaseURL string
	NATS        *natstest.Server
	Pool        *pgxpool.Pool
	Ledger      *ledger.Ledger
	// Database and Brokers are the proxies of a proxied cluster, else nil.
	Database *faultproxy.Postgres
	Brokers  []*faultproxy.NATS

	partitions atomic.Int64
	flags      []string
	resized    bool
	mu         sync.Mutex
	started    int
	loads      []*Producer
	subscriber *Subscriber
}

// New brings up the workers' servers.
func New(t testing.TB, config Config) *Cluster {
	t.Helper()
	config.Partitions = cmp.Or(config.Partitions, DefaultPartitions)
	if config.DatabaseURL == "" {
		config.DatabaseURL = pgtest.Migrated(t, config.Partitions)
	}
	if config.NATS == nil {
		config.NATS = natstest.Start(t, 1)
	}
	if !config.NoStream {
		config.NATS.Stream(t, max(config.Replicas, 1), func(s *jetstream.StreamConfig) { s.AllowAtomicPublish = !config.NoBatches })
	}
	c := &Cluster{
		DatabaseURL: config.DatabaseURL, NATS: config.NATS, Pool: pgtest.Pool(t, config.DatabaseURL),
		Ledger: ledger.New(), flags: config.Flags, resized: config.Resized,
	}
	c.Repartitioned(config.Partitions)
	if config.Proxied {
		c.Database = faultproxy.StartPostgres(t, config.DatabaseURL)
		for node := range strings.SplitSeq(config.NATS.URL(), ",") {
			c.Brokers = append(c.Brokers, faultproxy.StartNATS(t, node))
		}
	}
	return c
}

// Partitions returns their number.
func (c *Cluster) Partitions() int { return int(c.partitions.Load()) }

// Repartitioned notes another number of partitions, after a resize.
func (c *Cluster) Repartitioned(partitions int) { c.partitions.Store(int64(partitions)) }

// Environment returns the variables of database and broker, past the proxies.
func (c *Cluster) Environment() []string {
	return []string{"DATABASE_URL=" + c.DatabaseURL, "NATS_URL=" + c.NATS.URL()}
}

// ProxiedEnvironment returns those of the proxies; without proxies it is Environment.
func (c *Cluster) ProxiedEnvironment() []string {
	if c.Database == nil {
		return c.Environment()
	}
	urls := make([]string, len(c.Brokers))
	for i, b := range c.Brokers {
		urls[i] = b.URL()
	}
	return []string{"DATABASE_URL=" + c.Database.URL(), "NATS_URL=" + strings.Join(urls, ",")}
}

// setting returns the value that the cluster's flags give a setting such as --ordering, "" when they do not name it.
func (c *Cluster) setting(name string) (value string) {
	for i, flag := range c.flags {
		given, text, whole := strings.Cut(flag, "=")
		switch {
		case given != name:
		case whole:
			value = text
		case i+1 < len(c.flags):
			value = c.flags[i+1]
		}
	}
	return value
}

// Run launches `postrider run` with the cluster's flags and these, and waits for nothing.
func (c *Cluster) Run(t testing.TB, flags ...string) *Process {
	t.Helper()
	return c.run(t, Binary(t), c.ProxiedEnvironment(), flags)
}

func (c *Cluster) run(t testing.TB, binary string, environment, flags []string) *Process {
	t.Helper()
	c.mu.Lock()
	c.started++
	name := fmt.Sprintf("worker %d", c.started)
	c.mu.Unlock()
	args := slices.Concat([]string{"run"}, c.flags, flags)
	if !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--http-addr") }) {
		args = append(args, "--http-addr=off")
	}
	return LaunchBinary(t, name, binary, environment, args...)
}

// Start starts n workers at once and returns them when they are members, in the order of their ids.
func (c *Cluster) Start(t testing.TB, n int, flags ...string) []*Worker {
	t.Helper()
	return c.start(t, Binary(t), n, c.ProxiedEnvironment(), flags)
}

// StartBuild is Start of another build of the program.
func (c *Cluster) StartBuild(t testing.TB, binary string, n int, flags ...string) []*Worker {
	t.Helper()
	return c.start(t, binary, n, c.ProxiedEnvironment(), flags)
}

// StartDirect is Start past the proxies.
func (c *Cluster) StartDirect(t testing.TB, n int, flags ...string) []*Worker {
	t.Helper()
	return c.start(t, Binary(t), n, c.Environment(), flags)
}

func (c *Cluster) start(t testing.TB, binary string, n int, environment, flags []string) []*Worker {
	t.Helper()
	workers := make([]*Worker, n)
	for i := range workers {
		w := &Worker{Process: c.run(t, binary, environment, append([]string{"--json"}, flags...))}
		workers[i] = w
		t.Cleanup(func() { // before the process is killed
			select {
			case <-w.ended:
				if !w.asked.Load() {
					t.Errorf("%s ended unasked: %s", w.name, w.cmd.ProcessState)
				}
			default:
			}
		})
	}
	for _, w := range workers {
		Until(t, w.name+" has joined", func(ctx context.Context) (bool, error) {
			select {
			case <-w.ended:
				return false, fmt.Errorf("it ended with %s", w.cmd.ProcessState)
			default:
			}
			err := c.Pool.QueryRow(ctx, `SELECT worker_id FROM outbox_workers WHERE pid = $1 AND state = 'active'`, w.PID()).Scan(&w.ID)
			if errors.Is(err, pgx.ErrNoRows) {
				return false, nil
			}
			return err == nil, err
		}, nil)
	}
	slices.SortFunc(workers, byID)
	return workers
}

func byID(a, b *Worker) int { return slices.Compare(a.ID[:], b.ID[:]) }

// Owners returns the holders of the leases that have not run out, by partition.
func (c *Cluster) Owners(ctx context.Context) (map[int]uuid.UUID, error) {
	rows, err := c.Pool.Query(ctx, `SELECT partition_key, lease_owner FROM outbox_partitions
		WHERE lease_owner IS NOT NULL AND lease_until > clock_timestamp()`)
	if err != nil {
		return nil, err
	}
	owners := map[int]uuid.UUID{}
	var id int
	var owner uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&id, &owner}, func() error { owners[id] = owner; return nil })
	return owners, err
}

// counts returns the number of each worker's partitions, and of those that are free or others'.
func counts(owners map[int]uuid.UUID, partitions int, workers []*Worker) (held []int, others int) {
	held = make([]int, len(workers))
	others = partitions
	for i, w := range workers {
		for _, owner := range owners {
			if owner == w.ID {
				held[i]++
				others--
			}
		}
	}
	return held, others
}

// WaitShared waits until these workers alone hold all partitions as the assignment shares them, and returns the time. Nothing moves after
// that while nobody comes or goes.
func (c *Cluster) WaitShared(t testing.TB, workers ...*Worker) time.Duration {
	t.Helper()
	workers = slices.Clone(workers)
	slices.SortFunc(workers, byID)
	return c.wait(t, fmt.Sprintf("%d workers share all partitions", len(workers)), workers, func(owners map[int]uuid.UUID, held []int) bool {
		if slices.Contains(c.flags, "--assignment=sticky") {
			return slices.Max(held)-slices.Min(held) <= 1
		}
		for p, owner := range owners {
			if owner != workers[p%len(workers)].ID {
				return false
			}
		}
		return true
	})
}

// WaitHeld waits until these workers alone hold all partitions, however shared, and returns the time.
func (c *Cluster) WaitHeld(t testing.TB, workers ...*Worker) time.Duration {
	t.Helper()
	return c.wait(t, fmt.Sprintf("%d workers hold all partitions", len(workers)), workers, func(map[int]uuid.UUID, []int) bool { return true })
}

func (c *Cluster) wait(t testing.TB, what string, workers []*Worker, settled func(map[int]uuid.UUID, []int) bool) time.Duration {
	t.Helper()
	var held []int
	var others int
	return Until(t, what, func(ctx context.Context) (bool, error) {
		owners, err := c.Owners(ctx)
		if err != nil {
			return false, err
		}
		held, others = counts(owners, c.Partitions(), workers)
		return others == 0 && settled(owners, held), nil
	}, func() string { return fmt.Sprintf("they hold %v, %d are free or held by others", held, others) })
}

// Shares returns the numbers of each worker's partitions, most first.
func (c *Cluster) Shares(t testing.TB, workers ...*Worker) []int {
	t.Helper()
	owners, err := c.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held, _ := counts(owners, c.Partitions(), workers)
	slices.Sort(held)
	slices.Reverse(held)
	return held
}

// Count runs a query for one number.
func (c *Cluster) Count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var n int
	if err := c.Pool.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// WaitCount waits until a query for one number gives at least so many.
func (c *Cluster) WaitCount(t testing.TB, atLeast int, sql string, args ...any) {
	t.Helper()
	var n int
	Until(t, fmt.Sprintf("%s gives %d", sql, atLeast), func(ctx context.Context) (bool, error) {
		err := c.Pool.QueryRow(ctx, sql, args...).Scan(&n)
		return n >= atLeast, err
	}, func() string { return fmt.Sprintf("it gives %d", n) })
}

// WaitDrained waits until the outbox is empty.
func (c *Cluster) WaitDrained(t testing.TB) {
	t.Helper()
	var n int
	Until(t, "the outbox is empty", func(ctx context.Context) (bool, error) {
		err := c.Pool.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&n)
		return err == nil && n == 0, err
	}, func() string { return fmt.Sprintf("it holds %d rows", n) })
}
