package pairs_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

const (
	partitions = 8
	// age is the lease epoch that partitions begin with: that of an outbox which has lived.
	age = 500
	// brokerPayload is the largest message that the broker takes.
	brokerPayload = 64 << 10
	// horizon is above every sequence.
	horizon = math.MaxInt64
)

// stage is a cluster under load, and what its operations did to it.
type stage struct {
	*clustertest.Cluster

	server  *localpg.Server
	clock   *pgtest.Clock // the server's; nil: it cannot be moved here
	behind  time.Duration // how far it is behind
	js      jetstream.JetStream
	library *outbox.Producer
	load    *clustertest.Producer
	quiets  int // how many want quiet
	crews   []*crew

	canaries int  // how many want workers with one
	awaited  bool // one more audit is, of all that was done

	consumer *consumer
	store    string // where the broker's files lie

	workers []*clustertest.Worker
	hired   []*clustertest.Worker // with those that have ended
	flags   []string              // of those that are started from now on
	paused  map[partition.ID]bool
	open    map[string]int64 // the first sequence of each open prepared transaction, by its name

	// tapes are what earlier streams held when they were lost.
	tapes [][]ledger.Message
	// forgotten are the events that the database has lost after they were committed; the value says whether they
	// were published.
	forgotten map[uuid.UUID]bool
	// swept are the events whose history retention removed.
	swept map[int64]bool
	// unhealed are the events that the stream lost and that workers only reported.
	unhealed map[uuid.UUID]bool
	// selects is what replays up to a sequence must have selected, unselected where that cannot be known any more.
	selects map[int]int
	// late are streams with events that were parked.
	late []string
	// permits of both operations.
	permits permits
	// refused are the operations that the program refused, rightly.
	refused []string
}

// begin makes the cluster, for operations that permit so much, and waits until it delivers.
func begin(t *testing.T, server *localpg.Server, address string, permitted permits) *stage {
	t.Helper()
	flags := []string{"--lease-ttl=3s", "--audit=10s"}
	if permitted&reports != 0 {
		flags = append(flags, "--lost-messages=report")
	}
	store := t.TempDir()
	broker := natstest.StartWith(t, localnats.Config{Nodes: 1, MaxPayload: brokerPayload, StoreDir: store})
	c := clustertest.New(t, clustertest.Config{
		DatabaseURL: address, NATS: broker, Partitions: partitions, Resized: true, Flags: flags,
	})
	library, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{
		Cluster: c, server: server, js: broker.JetStream(t), library: library, paused: map[partition.ID]bool{}, open: map[string]int64{},
		forgotten: map[uuid.UUID]bool{}, swept: map[int64]bool{}, unhealed: map[uuid.UUID]bool{}, selects: map[int]int{}, permits: permitted,
		consumer: newConsumer(t), store: store,
	}
	s.exec(t, `UPDATE outbox_partitions SET lease_epoch = $1`, age)
	s.consume(t)
	s.hire(t, 2)
	s.produce(t)
	s.waitStored(t, 40)
	return s
}

func (s *stage) produce(t *testing.T) {
	t.Helper()
	s.load = s.Produce(t, clustertest.Load{Writers: 2, Streams: 40, Every: 25 * time.Millisecond})
}

// waitStored waits until the stream holds so many messages.
func (s *stage) waitStored(t *testing.T, n uint64) {
	t.Helper()
	clustertest.Until(t, fmt.Sprintf("the stream holds %d messages", n), func(ctx context.Context) (bool, error) {
		stream, err := s.js.Stream(ctx, natstest.StreamName)
		return err == nil && stream.CachedInfo().State.Msgs >= n, err
	}, nil)
}

// quietly does something while no producer writes and nothing that can be delivered waits.
func (s *stage) quietly(t *testing.T, do func()) {
	t.Helper()
	if s.quiets++; s.quiets == 1 {
		s.load.Stop(t)
		for _, c := range s.crews {
			c.stop(t)
		}
	}
	s.flow(t)
	do()
	if s.quiets--; s.quiets == 0 {
		s.produce(t)
		for _, c := range s.crews {
			c.start(t, s)
		}
	}
}

// flow waits until everything is delivered that nothing holds back: neither a pause nor an open transaction, a schedule or a
// dead message.
func (s *stage) flow(t *testing.T) {
	t.Helper()
	var n int
	clustertest.Until(t, "what nothing holds back is delivered", func(ctx context.Context) (bool, error) {
		err := s.Pool.QueryRow(ctx, `SELECT count(*) FROM outbox AS o JOIN outbox_partitions AS p USING (partition_key)
			WHERE NOT o.parked AND p.paused_at IS NULL AND o.global_sequence < $1`, s.held()).Scan(&n)
		return err == nil && n == 0, err
	}, func() string { return fmt.Sprintf("%d rows wait:\n%s", n, s.waiting(t)) })
}

// held is the lowest sequence that an open prepared transaction has drawn.
func (s *stage) held() int64 {
	lowest := int64(horizon)
	for _, first := range s.open {
		lowest = min(lowest, first)
	}
	return lowest
}

// waiting describes what is in the outbox.
func (s *stage) waiting(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), clustertest.Patience)
	defer cancel()
	var text strings.Builder
	rows, _ := s.Pool.Query(ctx, `SELECT format('partition %s (epoch %s, owner %s%s): %s rows from sequence %s, parked %s, dead %s, last error %s',
		       p.partition_key, p.lease_epoch, coalesce(p.lease_owner::text, 'none'), CASE WHEN p.paused_at IS NOT NULL THEN ', paused' ELSE '' END,
		       count(o.*), min(o.global_sequence), count(*) FILTER (WHERE o.parked), count(o.dead_at), max(o.last_error))
		FROM outbox_partitions AS p JOIN outbox AS o USING (partition_key) GROUP BY p.partition_key ORDER BY p.partition_key`)
	var line string
	if _, err := pgx.ForEachRow(rows, []any{&line}, func() error { fmt.Fprintln(&text, line); return nil }); err != nil {
		fmt.Fprintln(&text, err)
	}
	return text.String()
}

// exec runs a statement.
func (s *stage) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	if _, err := s.Pool.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// sequences runs a query for sequences.
func (s *stage) sequences(t *testing.T, sql string, args ...any) []int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	rows, _ := s.Pool.Query(ctx, sql, args...)
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return found
}

// operate runs the program and wants it to succeed.
func (s *stage) operate(t *testing.T, args ...string) string {
	t.Helper()
	p := clustertest.Launch(t, strings.Join(args, " "), s.Environment(), args...)
	if p.Exit(t) != 0 {
		t.Fatalf("%s: %s", strings.Join(args, " "), p.Stderr())
	}
	return p.Stdout()
}

// event is one of a stream; parameters that most do not need are set by changes.
func event(stream string, changes ...func(*outbox.Event)) outbox.Event {
	e := outbox.Event{ID: uuid.New(), StreamID: stream, Type: "pair.done", Payload: []byte(`{}`)}
	for _, change := range changes {
		change(&e)
	}
	return e
}

// append commits events.
func (s *stage) append(t *testing.T, events ...outbox.Event) []ledger.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	var entries []ledger.Entry
	err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) (err error) {
		entries, err = s.appendIn(ctx, tx, events...)
		return err
	})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return entries
}

// appendIn appends events in a transaction.
func (s *stage) appendIn(ctx context.Context, tx pgx.Tx, events ...outbox.Event) ([]ledger.Entry, error) {
	appended, err := s.library.AppendTx(ctx, tx, events...)
	if err != nil {
		return nil, err
	}
	entries := make([]ledger.Entry, len(events))
	for i, a := range appended {
		entries[i] = ledger.Entry{
			EventID: a.EventID, Stream: events[i].StreamID, Version: a.StreamVersion, Sequence: a.Sequence, Partition: a.Partition,
		}
	}
	return entries, nil
}

// committed appends events and writes them into the ledger.
func (s *stage) committed(t *testing.T, events ...outbox.Event) []ledger.Entry {
	t.Helper()
	entries := s.append(t, events...)
	s.Ledger.Committed(entries, time.Now())
	return entries
}

// stream names a stream whose partition is one of these, or, if there are none, one that is not paused.
func (s *stage) stream(kind string, n int, in ...partition.ID) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d-%d", kind, n, i)
		id := partition.Of(name, partition.Count(s.Partitions())) // a handful
		if len(in) == 0 && !s.paused[id] {
			return name
		}
		for _, wanted := range in {
			if id == wanted {
				return name
			}
		}
	}
}

// tape reads the events that the stream holds now, in stored order.
func (s *stage) tape(t *testing.T) []ledger.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	consumer, err := s.js.OrderedConsumer(ctx, natstest.StreamName, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"events.>"}})
	if err != nil {
		t.Fatalf("read the stream: %v", err)
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		t.Fatalf("read the stream: %v", err)
	}
	if info.NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1000), jetstream.PullHeartbeat(time.Second))
	if err != nil {
		t.Fatalf("read the stream: %v", err)
	}
	defer messages.Stop()
	tape := make([]ledger.Message, 0, info.NumPending)
	for range info.NumPending {
		raw, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatalf("read the stream: %v", err)
		}
		meta, err := raw.Metadata()
		if err != nil {
			t.Fatalf("read the stream: %v", err)
		}
		m, err := ledger.ParseMessage(raw.Subject(), raw.Headers(), raw.Data(), meta.Sequence.Stream)
		if err != nil {
			t.Fatalf("stream sequence %d: %v", meta.Sequence.Stream, err)
		}
		m.ReceivedAt = meta.Timestamp // it tells the message from another in its place
		tape = append(tape, m)
	}
	return tape
}

// stored tells whether the stream holds a message of any of these events.
func (s *stage) stored(t *testing.T, entries []ledger.Entry) (n int) {
	t.Helper()
	wanted := map[uuid.UUID]bool{}
	for _, e := range entries {
		wanted[e.EventID] = true
	}
	for _, m := range s.tape(t) {
		if wanted[m.EventID] {
			n++
		}
	}
	return n
}
