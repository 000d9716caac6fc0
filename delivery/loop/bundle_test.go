package loop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/partition"
)

func TestMain(m *testing.M) {
	if os.Getenv(brokerVariable) != "" {
		if err := serveBroker(); err != nil {
			panic(err)
		}
		return
	}
	pgtest.Main(m)
}

// patience is how long nothing may happen before a test gives up.
const patience = 30 * time.Second

// bundle is an outbox with a broker, a worker's leases and a relay between them.
type bundle struct {
	pool   *pgxpool.Pool
	server *natstest.Server
	nc     *nats.Conn
	js     jetstream.JetStream
	bell   *wire.Bell
	store  *pgstore.Store
	leases *lease.Store
	keeper *lease.Keeper
	count  int
	// control is where records go; staging is as in natspub.FencedConfig.
	control streams.Control
	staging time.Duration
}

func setup(t *testing.T, partitions int) *bundle {
	t.Helper()
	return setupAt(t, pgtest.Migrated(t, partitions), partitions)
}

// setupOwn is setup on a server for this test alone.
func setupOwn(t *testing.T, partitions int) (*bundle, *localpg.Server) {
	t.Helper()
	server := pgtest.Server(t, localpg.Config{})
	migrator, err := schema.New(schema.Config{DatabaseURL: server.URL(), Schema: "public", Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return setupAt(t, server.URL(), partitions), server
}

func setupAt(t *testing.T, address string, partitions int) *bundle {
	t.Helper()
	b := &bundle{count: partitions, control: streams.Control{Outbox: uuid.New()}}
	b.pool = pgtest.Pool(t, address)
	b.server = natstest.Start(t, 1)
	b.server.Stream(t, 1)
	b.nc = b.connect(t)
	var err error
	if b.js, err = jetstream.New(b.nc); err != nil {
		t.Fatal(err)
	}
	if b.bell, err = wire.NewBell(b.nc, "outbox.bell.test"); err != nil {
		t.Fatal(err)
	}
	if b.store, err = pgstore.New(t.Context(), b.pool, "public", pgstore.Relation{}); err != nil {
		t.Fatal(err)
	}
	if b.leases, err = lease.NewStore(t.Context(), b.pool, "public"); err != nil {
		t.Fatal(err)
	}
	b.keeper = b.newKeeper(t)
	return b
}

func (b *bundle) connect(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := wire.Connect(b.server.URL(), "test", testLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func (b *bundle) newKeeper(t *testing.T) *lease.Keeper {
	t.Helper()
	k, err := lease.NewKeeper(b.leases, uuid.Must(uuid.NewV7()), lease.Config{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// takeRow takes the partition's row, and returns the number that it has then.
func (b *bundle) takeRow(t *testing.T, l *lease.Lease) (revision int64) {
	t.Helper()
	row, err := b.store.Take(t.Context(), l, "")
	if err != nil {
		t.Fatal(err)
	}
	return row.Revision
}

// acquireAll takes every partition for the keeper.
func (b *bundle) acquireAll(t *testing.T, k *lease.Keeper) {
	t.Helper()
	ids := make([]partition.ID, b.count)
	for i := range ids {
		ids[i] = partition.ID(i)
	}
	if leases, err := k.Acquire(t.Context(), ids); err != nil || len(leases) != b.count {
		t.Fatalf("acquired %d of %d partitions: %v", len(leases), b.count, err)
	}
}

func (b *bundle) stream(t *testing.T) jetstream.Stream {
	t.Helper()
	stream, err := b.js.Stream(t.Context(), streams.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// publisher is as a worker makes it.
func (b *bundle) publisher(t *testing.T) *natspub.Fenced {
	t.Helper()
	return b.publisherOf(t, wire.Shape{})
}

func (b *bundle) publisherOf(t *testing.T, shape wire.Shape) *natspub.Fenced {
	t.Helper()
	publisher, err := natspub.NewFenced(b.nc, natspub.FencedConfig{
		AckTimeout: 2 * time.Second, Shape: shape, Control: b.control, Found: b.stream(t).CachedInfo(), Staging: b.staging,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = publisher.Close() })
	return publisher
}

func (b *bundle) relay(t *testing.T, cfg loop.Config) *loop.Relay {
	t.Helper()
	return b.relayOver(t, b.publisher(t), cfg)
}

func (b *bundle) relayOver(t *testing.T, publisher delivery.Publisher, cfg loop.Config) *loop.Relay {
	t.Helper()
	cfg.Logger = testLogger(t)
	r, err := loop.NewRelay(cfg, b.store, publisher, b.bell)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs the relay on the keeper's leases until the test ends or stop is
// called.
func (b *bundle) start(t *testing.T, r *loop.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx, b.keeper.Set()); err != nil {
			t.Errorf("the relay ended: %v", err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// drain delivers everything that can be delivered now. It ends by itself: a slow machine may take its time.
func (b *bundle) drain(t *testing.T, r *loop.Relay) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	if err := r.RunOnce(ctx, b.keeper.Set()); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatal("the relay did not come to an end")
	}
}

// append adds an event by SQL and returns its sequence.
func (b *bundle) append(t *testing.T, stream, payload string, more ...string) int64 {
	t.Helper()
	args := ""
	for _, m := range more {
		args += ", " + m
	}
	var sequence int64
	err := b.pool.QueryRow(t.Context(), `SELECT outbox_append($1, 'thing.done', $2::jsonb`+args+`)`, stream, payload).Scan(&sequence)
	if err != nil {
		t.Fatal(err)
	}
	return sequence
}

// stored reads the events of the whole stream.
func (b *bundle) stored(t *testing.T) []*jetstream.RawStreamMsg {
	t.Helper()
	s := b.stream(t)
	state := s.CachedInfo().State
	var messages []*jetstream.RawStreamMsg
	for seq := max(state.FirstSeq, 1); seq <= state.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // a record that was trimmed
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get(message.HeaderSequence) != "" {
			messages = append(messages, m)
		}
	}
	return messages
}

// sequencesOf returns the sequences of one stream key, in stored order.
func sequencesOf(messages []*jetstream.RawStreamMsg, stream string) []string {
	var list []string
	for _, m := range messages {
		if m.Header.Get(message.HeaderStream) == stream {
			list = append(list, m.Header.Get(message.HeaderSequence))
		}
	}
	return list
}

// state is one row of the view.
type state struct {
	State          string
	Attempts       int
	StreamSequence *int64
	LastError      *string
}

func (b *bundle) state(t *testing.T, sequence int64) state {
	t.Helper()
	var s state
	err := b.pool.QueryRow(t.Context(),
		`SELECT state, attempts, stream_sequence, last_error FROM outbox_messages WHERE global_sequence = $1`, sequence).
		Scan(&s.State, &s.Attempts, &s.StreamSequence, &s.LastError)
	if err != nil {
		t.Fatalf("state of %d: %v", sequence, err)
	}
	return s
}

// until asks the database again and again until the count is as wanted. It gives
// up when the count stands still.
func (b *bundle) until(t *testing.T, sql string, want int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	standstill := time.AfterFunc(patience, func() { cancel(context.DeadlineExceeded) })
	defer standstill.Stop()
	last := -1
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for ; last != want; <-pace.C {
		var got int
		if err := b.pool.QueryRow(ctx, sql).Scan(&got); err != nil {
			t.Fatalf("waited in vain for %d from %s, last was %d: %v", want, sql, last, err)
		}
		if got != last {
			standstill.Reset(patience)
		}
		last = got
	}
}

func texts(numbers ...int64) []string {
	list := make([]string, len(numbers))
	for i, n := range numbers {
		list[i] = fmt.Sprint(n)
	}
	return list
}
