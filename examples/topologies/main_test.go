package topologies

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/message"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

const (
	events = "EVENTS" // the workers' stream
	orders = 10
	// round is how many events a round of sales has.
	round = 3 * orders
)

// house is an outbox, its workers and their stream.
type house struct {
	*clustertest.Cluster
	js jetstream.JetStream
}

func newHouse(t *testing.T, flags ...string) *house {
	t.Helper()
	return houseOf(t, clustertest.Config{Flags: flags})
}

func houseOf(t *testing.T, config clustertest.Config) *house {
	t.Helper()
	config.Partitions = 8
	c := clustertest.New(t, config)
	h := &house{c, c.NATS.JetStream(t)}
	h.exec(t, `CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY, stream text, version bigint)`)
	return h
}

func (h *house) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := h.Pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// sell appends rounds of three events for each order, and has a worker deliver them.
func (h *house) sell(t *testing.T, rounds int, flags ...string) {
	t.Helper()
	h.exec(t, `SELECT outbox_append('order-' || o, type, '{}', topic => 'shop') FROM (
		SELECT o, type FROM generate_series(1, $1::int) AS r, unnest(ARRAY['placed', 'paid', 'shipped']) WITH ORDINALITY AS k (type, at),
		       generate_series(1, $2::int) AS o ORDER BY r, at, o OFFSET 0) AS sales`, rounds, orders)
	if code, stderr := h.work(t, flags...); code != 0 {
		t.Fatalf("the worker ended with %d: %s", code, stderr)
	}
}

// work has a worker deliver what waits, and returns how it ended.
func (h *house) work(t *testing.T, flags ...string) (code int, stderr string) {
	t.Helper()
	p := h.Run(t, append([]string{"--once"}, flags...)...)
	return p.Exit(t), p.Stderr()
}

// stream makes another one.
func (h *house) stream(t *testing.T, config jetstream.StreamConfig) {
	t.Helper()
	if _, err := h.js.CreateStream(t.Context(), config); err != nil {
		t.Fatalf("make stream %s: %v", config.Name, err)
	}
}

// state is how a stream stands.
func state(ctx context.Context, js jetstream.JetStream, name string) (jetstream.StreamState, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	return stream.CachedInfo().State, nil
}

// wait returns when a stream's state is as wanted.
func wait(t *testing.T, js jetstream.JetStream, name, what string, wanted func(jetstream.StreamState) bool) {
	t.Helper()
	var last jetstream.StreamState
	clustertest.Until(t, name+" "+what, func(ctx context.Context) (bool, error) {
		var err error
		last, err = state(ctx, js, name)
		return err == nil && wanted(last), err
	}, func() string { return fmt.Sprintf("%+v", last) })
}

// holds waits until a stream has so many messages.
func (h *house) holds(t *testing.T, name string, messages int) {
	t.Helper()
	wait(t, h.js, name, fmt.Sprintf("holds %d messages", messages), func(s jetstream.StreamState) bool { return s.Msgs == uint64(messages) })
}

// stored reads what a stream holds under a filter, in its order.
func stored(t *testing.T, js jetstream.JetStream, name, filter string) []jetstream.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	consumer, err := js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}})
	if err != nil {
		t.Fatalf("read stream %s: %v", name, err)
	}
	list := make([]jetstream.Msg, consumer.CachedInfo().NumPending)
	if len(list) == 0 {
		return nil
	}
	messages, err := consumer.Messages(jetstream.PullHeartbeat(time.Second))
	if err != nil {
		t.Fatalf("read stream %s: %v", name, err)
	}
	defer messages.Stop()
	for i := range list {
		if list[i], err = messages.Next(jetstream.NextContext(ctx)); err != nil {
			t.Fatalf("read stream %s: %v", name, err)
		}
	}
	return list
}

// parsed reads messages as consumers do.
func parsed(t *testing.T, list []jetstream.Msg) []message.Message {
	t.Helper()
	read := make([]message.Message, len(list))
	for i, msg := range list {
		var err error
		if read[i], err = message.FromJetStream(msg); err != nil {
			t.Fatal(err)
		}
	}
	return read
}

// versions are those of each event stream, in the order in which they came.
func versions(list []message.Message) map[string][]int64 {
	came := map[string][]int64{}
	for _, m := range list {
		came[m.Stream] = append(came[m.Stream], m.Version)
	}
	return came
}

// inOrder tells whether each version came once, ascending.
func inOrder(came []int64) bool {
	for i, version := range came {
		if version != int64(i+1) {
			return false
		}
	}
	return true
}

// wantOrder wants all events of so many rounds once, each order's in order.
func wantOrder(t *testing.T, came map[string][]int64, rounds int) {
	t.Helper()
	for order, list := range came {
		if len(list) != 3*rounds || !inOrder(list) {
			t.Errorf("the versions of %s came as %v, want 1 to %d", order, list, 3*rounds)
		}
	}
	if len(came) != orders {
		t.Errorf("events of %d orders came, want %d", len(came), orders)
	}
}

// consumer is one with an inbox, whose effects are rows.
func (h *house) consumer(t *testing.T, stream string) *inbox.Consumer {
	t.Helper()
	if err := inbox.Migrate(t.Context(), h.Pool, "public"); err != nil {
		t.Fatal(err)
	}
	box, err := inbox.New(h.Pool, inbox.Config{Name: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := inbox.NewConsumer(box, h.js, func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects (stream, version) VALUES ($1, $2)`, m.Stream, m.Version)
		return nil, err
	}, inbox.ConsumerConfig{Stream: stream})
	if err != nil {
		t.Fatal(err)
	}
	return consumer
}

// consume runs it until there are so many effects.
func (h *house) consume(t *testing.T, stream string, effects int) {
	t.Helper()
	consumer := h.consumer(t, stream)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("consume %s: %v", stream, err)
		}
	}()
	h.WaitCount(t, effects, `SELECT count(*) FROM effects`)
}

// wantEffects wants the effect of each event of so many rounds once, each order's in order.
func (h *house) wantEffects(t *testing.T, rounds int) {
	t.Helper()
	rows, _ := h.Pool.Query(t.Context(), `SELECT stream, version FROM effects ORDER BY n`)
	came := map[string][]int64{}
	var stream string
	var version int64
	if _, err := pgx.ForEachRow(rows, []any{&stream, &version}, func() error { came[stream] = append(came[stream], version); return nil }); err != nil {
		t.Fatal(err)
	}
	wantOrder(t, came, rounds)
}

// copies counts the events that came more than once.
func copies(list []message.Message) (twice int) {
	seen := map[string]int{}
	for _, m := range list {
		if seen[m.EventID.String()]++; seen[m.EventID.String()] == 2 {
			twice++
		}
	}
	return twice
}

// missing counts the events of the first list that the second lacks.
func missing(all, some []message.Message) (n int) {
	for _, m := range all {
		if !slices.ContainsFunc(some, func(other message.Message) bool { return other.EventID == m.EventID }) {
			n++
		}
	}
	return n
}
