package clustertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/chaos"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

// Load has the settings of a Producer.
type Load struct {
	// DatabaseURL names its role, too. Defaults to the cluster's.
	DatabaseURL string
	// Writers is the number of connections that write at once. Defaults to 4.
	Writers int
	// Streams is the number of the events' streams. Defaults to 200.
	Streams int
	// Every is the time between two transactions of one writer. Defaults to 8 ms.
	Every time.Duration
	// Outages expects the database to go away: failing to connect is then no failure of the test.
	Outages bool
	// Asynchronous commits return before they are durable: a crash of the database forgets some of them.
	Asynchronous bool
}

func (l Load) withDefaults() Load {
	l.Writers = cmp.Or(l.Writers, 4)
	l.Streams = cmp.Or(l.Streams, 200)
	l.Every = cmp.Or(l.Every, 8*time.Millisecond)
	return l
}

// Producer writes events until it is stopped, and every outcome into the ledger.
type Producer struct {
	cluster  *Cluster
	load     Load
	pool     *pgxpool.Pool
	producer *outbox.Producer
	ring     func(body []byte)
	stop     context.CancelFunc
	running  sync.WaitGroup

	committed, rolledBack, unknown atomic.Int64

	mu  sync.Mutex
	err error
}

// Produce starts a producer. Transactions are of one to five events of random streams, some are rolled back, some use
// the SQL function; half of the commits ring the doorbell, not all of them for the right partitions.
func (c *Cluster) Produce(t testing.TB, load Load) *Producer {
	t.Helper()
	load = load.withDefaults()
	library, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(cmp.Or(load.DatabaseURL, c.DatabaseURL))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = int32(load.Writers) // a handful
	if load.Asynchronous {
		config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	nc := c.NATS.Connect(t)
	ctx, stop := context.WithCancel(t.Context())
	p := &Producer{
		cluster: c, load: load, pool: pool, producer: library, stop: stop,
		ring: func(body []byte) { _ = nc.Publish(outbox.BellSubject("public"), body) },
	}
	for n := range load.Writers {
		p.running.Go(func() { p.write(ctx, n) })
	}
	t.Cleanup(func() { p.end(); pool.Close() })
	c.mu.Lock()
	c.loads = append(c.loads, p)
	c.mu.Unlock()
	return p
}

// Stop ends the writers after their transaction under way.
func (p *Producer) Stop(t testing.TB) {
	t.Helper()
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		t.Errorf("producer: %v", p.err)
	}
	t.Logf("producer: %d events committed, %d rolled back, %d of unknown outcome",
		p.committed.Load(), p.rolledBack.Load(), p.unknown.Load())
}

func (p *Producer) end() {
	p.stop()
	p.running.Wait()
}

// WaitCommitted waits until that many more events are committed than now.
func (p *Producer) WaitCommitted(t testing.TB, more int64) {
	t.Helper()
	goal := p.committed.Load() + more
	Until(t, fmt.Sprintf("%d events are committed", goal), func(context.Context) (bool, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.committed.Load() >= goal, p.err
	}, func() string { return fmt.Sprintf("%d are", p.committed.Load()) })
}

func (p *Producer) write(ctx context.Context, writer int) {
	pace := time.NewTicker(p.load.Every)
	defer pace.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		// A transaction under way is ended: its outcome belongs into the ledger.
		err := p.transaction(context.WithoutCancel(ctx), writer, n)
		if err != nil && !p.load.Outages {
			p.mu.Lock()
			p.err = errors.Join(p.err, err)
			p.mu.Unlock()
			return
		}
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
}

func (p *Producer) transaction(ctx context.Context, writer, n int) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback(ctx)
	insert := p.appendBatch
	if rand.IntN(5) == 0 {
		insert = p.appendSQL
	}
	entries, err := insert(ctx, tx, writer, n)
	if err != nil {
		return err
	}
	p.cluster.Ledger.Begin(entries)
	if rand.IntN(10) == 0 {
		p.cluster.Ledger.Failed(entries)
		p.rolledBack.Add(int64(len(entries)))
		return nil
	}
	err = tx.Commit(ctx)
	switch {
	case err == nil:
		p.cluster.Ledger.Committed(entries, time.Now())
		p.committed.Add(int64(len(entries)))
		if rand.IntN(2) == 0 {
			p.ring(bellBody(entries))
		}
		return nil
	case chaos.CertainlyNot(err):
		p.cluster.Ledger.Failed(entries)
	default:
		p.cluster.Ledger.Unknown(entries)
		p.unknown.Add(int64(len(entries)))
	}
	return fmt.Errorf("commit: %w", err)
}

// bellBody rings for all, for the right partitions, or, as before a resize, for another.
func bellBody(entries []ledger.Entry) []byte {
	var appended []outbox.Appended
	switch rand.IntN(4) {
	case 0:
		return nil
	case 1:
		return outbox.BellBody(outbox.Appended{Enqueued: true, Partition: 1})
	}
	for _, e := range entries {
		appended = append(appended, outbox.Appended{Enqueued: true, Partition: e.Partition})
	}
	return outbox.BellBody(appended...)
}

func (p *Producer) appendBatch(ctx context.Context, tx pgx.Tx, writer, n int) ([]ledger.Entry, error) {
	return p.appendEvents(ctx, tx, 1+rand.IntN(5), writer, n)
}

func (p *Producer) appendEvents(ctx context.Context, tx pgx.Tx, size, writer, n int) ([]ledger.Entry, error) {
	events := make([]outbox.Event, size)
	for i := range events {
		events[i] = outbox.Event{
			ID: uuid.New(), StreamID: p.stream(), Type: "load.go",
			Payload: fmt.Appendf(nil, `{"writer":%d,"n":%d,"i":%d,"filling":"%x"}`, writer, n, i, make([]byte, rand.IntN(200))),
		}
	}
	appended, err := p.producer.AppendTx(ctx, tx, events...)
	if err != nil {
		return nil, err
	}
	entries := make([]ledger.Entry, len(events))
	for i, a := range appended {
		entries[i] = ledger.Entry{
			EventID: a.EventID, Stream: events[i].StreamID, Version: a.StreamVersion, Sequence: a.Sequence,
			Partition: a.Partition, BodyHash: ledger.HashBody(events[i].Payload),
		}
	}
	return entries, nil
}

func (p *Producer) appendSQL(ctx context.Context, tx pgx.Tx, writer, n int) ([]ledger.Entry, error) {
	entry := ledger.Entry{EventID: uuid.New(), Stream: p.stream()}
	entry.Partition = partition.Of(entry.Stream, partition.Count(p.cluster.Partitions()))
	payload := fmt.Sprintf(`{"n": %d, "writer": %d}`, n, writer) // as jsonb writes it
	entry.BodyHash = ledger.HashBody([]byte(payload))
	err := tx.QueryRow(ctx, `SELECT outbox_append($1, 'load.sql', $2::text::jsonb, event_id => $3)`,
		entry.Stream, payload, entry.EventID).Scan(&entry.Sequence)
	if err != nil {
		return nil, fmt.Errorf("outbox_append: %w", err)
	}
	return []ledger.Entry{entry}, nil
}

// Backlog appends that many events to streams of the default load, as fast as one connection can.
func (c *Cluster) Backlog(t testing.TB, events int) {
	t.Helper()
	library, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	p := &Producer{cluster: c, load: Load{}.withDefaults(), producer: library}
	for n := 0; events > 0; n++ {
		size := min(events, 500)
		events -= size
		err := pgx.BeginFunc(ctx, c.Pool, func(tx pgx.Tx) error {
			entries, err := p.appendEvents(ctx, tx, size, -1, n)
			c.Ledger.Committed(entries, time.Now()) // if not, the test ends here
			return err
		})
		if err != nil {
			t.Fatalf("make a backlog: %v", err)
		}
	}
}

func (p *Producer) stream() string { return fmt.Sprintf("stream-%d", rand.IntN(p.load.Streams)) }
