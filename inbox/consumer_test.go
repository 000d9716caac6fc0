package inbox_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/message"
)

// reading is a bundle with a stream.
type reading struct {
	*bundle

	server   *natstest.Server
	js       jetstream.JetStream
	registry *prometheus.Registry
}

func newReading(t *testing.T, change ...func(*inbox.Config)) *reading {
	t.Helper()
	r := &reading{server: natstest.Start(t, 1), registry: prometheus.NewRegistry()}
	r.server.Stream(t, 1)
	r.js = r.server.JetStream(t)
	r.bundle = newBundle(t, append([]func(*inbox.Config){func(c *inbox.Config) {
		c.Registerer = r.registry
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}}, change...)...)
	return r
}

// run starts a consumer in this process; the function returned ends it and waits.
func (r *reading) run(t *testing.T, config inbox.ConsumerConfig, handle inbox.Handler) (end func()) {
	t.Helper()
	consumer, err := inbox.NewConsumer(r.box, r.js, handle, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returns %v", err)
		}
	}
}

func (r *reading) publish(t *testing.T, messages ...message.Message) {
	t.Helper()
	for _, m := range messages {
		_, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Data: m.Payload, Header: nats.Header{
			message.HeaderEventID: {m.EventID.String()}, message.HeaderStream: {m.Stream},
			message.HeaderStreamVersion: {strconv.FormatInt(m.Version, 10)},
			message.HeaderSequence:      {strconv.FormatInt(m.Sequence, 10)}, message.HeaderPartition: {strconv.Itoa(m.Partition)},
			message.HeaderType: {m.Type},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// metric is the value of a counter or gauge.
func (r *reading) metric(t *testing.T, name string) (value float64) {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				value += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return value
}

func (r *reading) waitMetric(t *testing.T, name string, least float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for r.metric(t, name) < least {
		select {
		case <-ctx.Done():
			t.Fatalf("%s is %g", name, r.metric(t, name))
		case <-ticker.C:
		}
	}
}

func quick() inbox.ConsumerConfig {
	return inbox.ConsumerConfig{Lanes: 4, LeaseTTL: time.Second, Interval: 20 * time.Millisecond, QuietTime: 200 * time.Millisecond}
}

func TestAConsumerGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.publish(t, event("s", 1), event("s", 2))
	if _, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.foreign", Data: []byte("no headers")}); err != nil {
		t.Fatal(err)
	}
	end := r.run(t, quick(), apply)
	waitFor(t, r.pool, `SELECT (SELECT count(*) FROM effects) = 2 AND (SELECT count(*) FROM inbox_malformed) = 1`)
	waitFor(t, r.pool, `SELECT min(position) = 3 FROM inbox_lanes`) // idle lanes, too
	end()
	waitFor(t, r.pool, `SELECT bool_and(owner IS NULL AND position = 3) AND NOT EXISTS (SELECT FROM inbox_readers) FROM inbox_lanes`)
	r.publish(t, event("s", 3))
	end = r.run(t, quick(), apply)
	waitFor(t, r.pool, `SELECT count(*) = 3 FROM effects`)
	end()
	if got := r.effects(t, "s"); !slices.Equal(got, []int64{1, 2, 3}) || r.metric(t, "inbox_messages_total") != 3 {
		t.Errorf("effects are %v, %g messages were dealt with", got, r.metric(t, "inbox_messages_total"))
	}
}

// Only the comparison in the transaction stands between a reader that comes back late and its successor's lane.
func TestALateReaderIsFenced(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	config := quick()
	config.LeaseTTL, config.Interval, config.Lanes = 10*time.Minute, 3*time.Minute, 1
	end := r.run(t, config, apply)
	r.publish(t, event("s", 1))
	waitFor(t, r.pool, `SELECT count(*) = 1 FROM effects`)
	_, err := r.pool.Exec(t.Context(),
		`UPDATE inbox_lanes SET owner = $1, epoch = epoch + 1, lease_until = clock_timestamp() + interval '1 hour'`, uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	r.publish(t, event("s", 2))
	r.waitMetric(t, "inbox_lane_fenced_total", 1)
	end()
	if got := r.effects(t, "s"); !slices.Equal(got, []int64{1}) {
		t.Errorf("effects are %v", got)
	}
}

func TestAStreamThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	malformed := func(text string) {
		t.Helper()
		if _, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.a", Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	r.publish(t, event("s", 1), event("s", 2))
	malformed("first")
	r.publish(t, event("s", 3))
	end := r.run(t, quick(), apply)
	waitFor(t, r.pool, `SELECT count(*) = 3 FROM effects`)
	if err := r.js.DeleteStream(t.Context(), natstest.StreamName); err != nil {
		t.Fatal(err)
	}
	r.server.Stream(t, 1)
	// The workers publish what was lost again; one of them is new.
	r.publish(t, event("s", 3), event("s", 4))
	waitFor(t, r.pool, `SELECT count(*) = 4 FROM effects`)
	// What is malformed takes the place of what was under that sequence.
	malformed("again")
	waitFor(t, r.pool, `SELECT count(*) = 1 FROM inbox_malformed WHERE payload = 'again'`)
	end()
	if got := r.effects(t, "s"); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("effects are %v", got)
	}
}

func TestATransactionInFlightIsFinished(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	handle := func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		close(entered)
		<-leave
		return apply(ctx, tx, m)
	}
	end := r.run(t, quick(), handle)
	r.publish(t, event("s", 1))
	<-entered
	go close(leave)
	end()
	if got := r.effects(t, "s"); !slices.Equal(got, []int64{1}) {
		t.Errorf("effects are %v", got)
	}
}

// Handlers that are within their time, and ask nothing of the transaction, take longer together than the server lets a session be idle.
func TestABatchOutlastsTheIdleLimit(t *testing.T) {
	t.Parallel()
	r := newReading(t, func(c *inbox.Config) { c.HandlerTimeout = 200 * time.Millisecond })
	for v := range int64(30) {
		r.publish(t, event("s", v+1))
	}
	config := quick()
	config.Lanes = 1
	end := r.run(t, config, func(ctx context.Context, _ pgx.Tx, _ message.Message) ([]byte, error) {
		_, err := r.pool.Exec(ctx, `SELECT pg_sleep(0.06)`)
		return nil, err
	})
	waitFor(t, r.pool, `SELECT count(*) = 30 FROM inbox_records`)
	end()
}

func TestOneSlowStreamOneBrokenStream(t *testing.T) {
	t.Parallel()
	r := newReading(t, func(c *inbox.Config) { c.MaxAttempts = inbox.NoLimit }) // it is healed when the test says so
	for v := range int64(20) {
		r.publish(t, event("broken", v+1), event("fine", v+1))
	}
	healed := make(chan struct{})
	handle := func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		select {
		case <-healed:
		default:
			if m.Stream == "broken" && m.Version == 5 {
				return nil, errors.New("not yet")
			}
		}
		return apply(ctx, tx, m)
	}
	config := quick()
	config.Lanes = 1 // they share everything
	end := r.run(t, config, handle)
	waitFor(t, r.pool, `SELECT count(*) = 20 FROM effects WHERE stream = 'fine'`)
	waitFor(t, r.pool, `SELECT count(*) = 16 FROM inbox_parked`)
	close(healed)
	waitFor(t, r.pool, `SELECT count(*) = 20 FROM effects WHERE stream = 'broken'`)
	end()
	if got := r.effects(t, "broken"); !slices.IsSorted(got) {
		t.Errorf("effects are %v", got)
	}
}

// Whoever may publish can choose a subject that PostgreSQL does not store as text.
func TestAHostileSubjectHoldsNothingUp(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.publish(t, changed(event("s", 1), func(m *message.Message) { m.Subject = "events.\xff.a" }))
	if _, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: "events.\xfe", Data: []byte("no headers")}); err != nil {
		t.Fatal(err)
	}
	r.publish(t, event("fine", 1))
	end := r.run(t, quick(), func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		if m.Stream == "s" {
			return nil, errors.New("it is parked")
		}
		return apply(ctx, tx, m)
	})
	waitFor(t, r.pool, `SELECT (SELECT count(*) FROM inbox_malformed) = 2 AND (SELECT min(position) FROM inbox_lanes) = 3`)
	end()
	if got := r.effects(t, "fine"); len(got) != 1 {
		t.Errorf("effects are %v", got)
	}
}

func TestWhatAConsumerRefuses(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	refuse := func(config inbox.ConsumerConfig, want error) {
		t.Helper()
		c, err := inbox.NewConsumer(r.box, r.js, apply, config)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); !errors.Is(err, want) {
			t.Errorf("%+v gives %v", config, err)
		}
	}
	refuse(inbox.ConsumerConfig{Stream: "NONE"}, inbox.ErrStream)
	_, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "WORK", Subjects: []string{"work.>"}, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	refuse(inbox.ConsumerConfig{Stream: "WORK"}, inbox.ErrStream)
	end := r.run(t, quick(), apply)
	waitFor(t, r.pool, `SELECT count(*) = 4 FROM inbox_lanes WHERE owner IS NOT NULL`)
	end()
	refuse(inbox.ConsumerConfig{Lanes: 5}, inbox.ErrConfig)
	if _, err := inbox.NewConsumer(nil, r.js, apply, inbox.ConsumerConfig{}); !errors.Is(err, inbox.ErrConfig) {
		t.Errorf("no inbox gives %v", err)
	}
}
