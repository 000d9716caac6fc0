package walbell_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/walbell"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/partition"
)

// place is an outbox on a server of its own that asks for the bell.
type place struct {
	address string
	pool    *pgxpool.Pool
}

func newPlace(t *testing.T, settings map[string]string) place {
	t.Helper()
	all := map[string]string{"wal_level": "logical"}
	for name, value := range settings {
		all[name] = value
	}
	server := pgtest.Server(t, localpg.Config{Settings: all})
	migrator, err := schema.New(schema.Config{DatabaseURL: server.URL(), Schema: "public", Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := place{server.URL(), pgtest.Pool(t, server.URL())}
	p.exec(t, ask)
	return p
}

func (p place) exec(t *testing.T, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := p.pool.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// until asks the database until the number is as wanted, and returns it.
func (p place) until(t *testing.T, what, sql string, wanted func(int) bool) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for ; ; <-pace.C {
		if err := p.pool.QueryRow(ctx, sql).Scan(&n); err != nil {
			t.Fatalf("%s: %v, last was %d", what, err, n)
		}
		if wanted(n) {
			return n
		}
	}
}

func (p place) held(t *testing.T) (session int) {
	t.Helper()
	return p.until(t, "nobody holds the slot", holders, func(n int) bool { return n != 0 })
}

// listening is a listener that runs.
type listening struct {
	rings    atomic.Int64
	rung     chan struct{}
	registry *prometheus.Registry
	stop     func()
	mu       sync.Mutex
	log      bytes.Buffer
	named    [][]partition.ID // of each ring
}

func (l *listening) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(text)
}

func (l *listening) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// since are the partitions that rings named, but for the first ones.
func (l *listening) since(first int) [][]partition.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.named[first:])
}

func listen(t *testing.T, address string) *listening {
	t.Helper()
	l := &listening{rung: make(chan struct{}, 1), registry: prometheus.NewRegistry()}
	pool := pgtest.Pool(t, address)
	listener, err := walbell.New(walbell.Config{
		Interval: 20 * time.Millisecond, Registerer: l.registry, Logger: slog.New(slog.NewTextHandler(l, nil)),
		Ring: func(named ...partition.ID) {
			l.mu.Lock()
			l.named = append(l.named, named)
			l.mu.Unlock()
			l.rings.Add(1)
			select {
			case l.rung <- struct{}{}:
			default:
			}
		},
	}, pool)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := listener.Run(ctx); err != nil {
			t.Errorf("the listener ended: %v", err)
		}
	})
	l.stop = func() { cancel(); running.Wait() }
	t.Cleanup(l.stop)
	return l
}

// wait waits until that many rings were heard.
func (l *listening) wait(t *testing.T, rings int64) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for l.rings.Load() < rings {
		select {
		case <-l.rung:
		case <-deadline.C:
			t.Fatalf("%d rings, want %d; log: %s", l.rings.Load(), rings, l.said())
		}
	}
}

// holds tells what the metric says.
func (l *listening) holds(t *testing.T) bool {
	t.Helper()
	families, err := l.registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d metrics: %v", len(families), err)
	}
	return families[0].GetMetric()[0].GetGauge().GetValue() == 1
}

// holder tells which of two alone says that it holds the slot.
func (p place) holder(t *testing.T, workers []*listening) int {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		p.exec(t, `SELECT 1`)
		if one, two := workers[0].holds(t), workers[1].holds(t); one != two {
			if two {
				return 1
			}
			return 0
		}
	}
	t.Fatal("both hold the slot, or neither")
	return 0
}

// heardAll waits until everything that is in the log was heard and confirmed.
func (p place) heardAll(t *testing.T) {
	t.Helper()
	var position string
	if err := p.pool.QueryRow(t.Context(), `SELECT pg_current_wal_lsn()::text`).Scan(&position); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the log is not confirmed", `SELECT count(*) FROM pg_replication_slots WHERE confirmed_flush_lsn >= '`+position+`'`,
		func(n int) bool { return n == 1 })
}
