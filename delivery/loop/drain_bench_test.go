//go:build unix

package loop_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/internal/testkit/processor"
	"github.com/postrider/postrider/lease"
)

// brokerVariable makes this test program a broker, so that the relay has its process for itself.
const brokerVariable = "POSTRIDER_BENCH_BROKER"

// serveBroker runs a server until its input ends.
func serveBroker() error {
	cluster, err := localnats.Start(context.Background(), localnats.Config{})
	if err != nil {
		return err
	}
	fmt.Println(cluster.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return cluster.Stop()
}

func startBroker(b *testing.B) *natstest.Server {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), brokerVariable+"=1"), os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return natstest.Attach(strings.TrimSpace(url))
}

// BenchmarkDrain delivers 100,000 events of 500 bytes that wait in 64 partitions. PostgreSQL and the broker are other
// processes, so that time and allocations are the relay's own.
func BenchmarkDrain(b *testing.B) {
	for storing, batches := range map[string]bool{"in batches": true, "one by one": false} {
		for _, order := range []delivery.Ordering{delivery.OrderPartition, delivery.OrderStream} {
			b.Run(storing+"/"+string(order), func(b *testing.B) { benchmarkDrain(b, batches, order) })
		}
	}
}

const (
	drained     = 100_000
	drainedSize = 500
)

func benchmarkDrain(b *testing.B, batches bool, order delivery.Ordering) {
	b.Helper()
	server := startBroker(b)
	found := server.Stream(b, 1, func(s *jetstream.StreamConfig) { s.AllowAtomicPublish = batches }).CachedInfo()
	var events int
	var used, took time.Duration
	var allocated, bytes uint64
	for b.Loop() {
		b.StopTimer()
		r, keeper := prepareDrain(b, server, found, order)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		cpu, began := processor.Time(b), time.Now()
		b.StartTimer()
		if err := r.RunOnce(b.Context(), keeper.Set()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		used, took = used+processor.Time(b)-cpu, took+time.Since(began)
		runtime.ReadMemStats(&after)
		allocated, bytes = allocated+after.Mallocs-before.Mallocs, bytes+after.TotalAlloc-before.TotalAlloc
		if got := r.Stats().Published; got != drained {
			b.Fatalf("%d events were published, want %d", got, drained)
		}
		events += drained
		b.StartTimer()
	}
	b.ReportMetric(float64(events)/took.Seconds(), "events/s")
	b.ReportMetric(float64(used.Microseconds())/float64(events), "cpu-µs/event")
	b.ReportMetric(float64(allocated)/float64(events), "allocs/event")
	b.ReportMetric(float64(bytes)/float64(events), "B/event")
}

// prepareDrain fills an outbox and takes its partitions.
func prepareDrain(b *testing.B, server *natstest.Server, found *jetstream.StreamInfo, order delivery.Ordering) (*loop.Relay, *lease.Keeper) {
	b.Helper()
	pool := pgtest.Pool(b, pgtest.Migrated(b, 64))
	fill(b, pool)
	nc, err := wire.Connect(server.URL(), "benchmark", slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	bell, err := wire.NewBell(nc, "outbox.bell.bench")
	if err != nil {
		b.Fatal(err)
	}
	publisher, err := natspub.NewFenced(nc, natspub.FencedConfig{Control: streams.Control{Outbox: uuid.New()}, Found: found})
	if err != nil {
		b.Fatal(err)
	}
	store, leases, ids := stores(b, pool)
	keeper, err := lease.NewKeeper(leases, uuid.Must(uuid.NewV7()), lease.Config{TTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := keeper.Acquire(b.Context(), ids); err != nil {
		b.Fatal(err)
	}
	r, err := loop.NewRelay(loop.Config{Ordering: order, Logger: slog.New(slog.DiscardHandler)}, store, publisher, bell)
	if err != nil {
		b.Fatal(err)
	}
	return r, keeper
}

// fill writes events and their pointers as producers would, but all at once: 1,000 streams, of which each keeps to its partition.
func fill(b *testing.B, pool *pgxpool.Pool) {
	b.Helper()
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO events (stream_id, stream_version, event_type, topic, payload)
			SELECT 'order-' || n %% 1000, n / 1000 + 1, 'order.paid', 'shop', convert_to(rpad('{"amount": ' || n || ', "text": "', %d, 'x') || '"}', 'UTF8')
			  FROM generate_series(0, %d) AS n`, drainedSize-2, drained-1),
		`INSERT INTO outbox (partition_key, global_sequence, stream_id, topic)
			SELECT sequence %% 1000 %% 64, sequence, stream_id, topic FROM events ORDER BY sequence`,
		`ANALYZE events`, `ANALYZE outbox`,
	} {
		if _, err := pool.Exec(b.Context(), strings.ReplaceAll(statement, "%%", "%")); err != nil {
			b.Fatal(err)
		}
	}
}
