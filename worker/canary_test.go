package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/worker"
)

func withCanary(c *clustertest.Cluster) worker.Config {
	cfg := settings(c)
	cfg.Canary, cfg.Heartbeat.Interval = time.Second, 200*time.Millisecond
	return cfg
}

// canaries are a worker's counts: how many were read, and how many intervals went by without.
func canaries(t *testing.T, cfg worker.Config) (read, failed int) {
	t.Helper()
	registry, is := cfg.Registerer.(*prometheus.Registry)
	if !is {
		t.Fatal("no registry")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		switch f.GetName() {
		case "outbox_canary_failures_total":
			failed = int(f.GetMetric()[0].GetCounter().GetValue())
		case "outbox_canary_seconds":
			for _, m := range f.GetMetric() {
				if m.GetLabel()[0].GetValue() == "read" {
					read = int(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return read, failed
}

func waitCanaries(t *testing.T, what string, reached func() bool) {
	t.Helper()
	clustertest.Until(t, what, func(context.Context) (bool, error) { return reached(), nil }, nil)
}

func set(t *testing.T, c *clustertest.Cluster, sql string) {
	t.Helper()
	if _, err := c.Pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// overdue waits for a worker's word on its canary that has this in it.
func overdue(t *testing.T, c *clustertest.Cluster, part string) {
	t.Helper()
	var said string
	clustertest.Until(t, "a worker says of its canary: "+part, func(ctx context.Context) (bool, error) {
		err := c.Pool.QueryRow(ctx, `SELECT coalesce(string_agg(canary, '; '), '') FROM outbox_workers`).Scan(&said)
		return part == "" && said == "" || part != "" && strings.Contains(said, part), err
	}, func() string { return said })
}

// One worker of several sends, one at a time, and each is read; when it leaves another one goes on.
func TestOneWorkerSendsCanaries(t *testing.T) {
	t.Parallel()
	for name, noBatches := range map[string]bool{"in batches": false, "one by one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clustertest.New(t, clustertest.Config{Partitions: 4, NoBatches: noBatches})
			one, two := withCanary(c), withCanary(c)
			first, second := start(t, one), start(t, two)
			first.waitOwned(t, 2)
			second.waitOwned(t, 2)
			waitCanaries(t, "three were read", func() bool { n, _ := canaries(t, one); return n >= 3 })
			if n, _ := canaries(t, two); n != 0 {
				t.Errorf("the other worker read %d", n)
			}
			if n := c.Count(t, `SELECT count(DISTINCT partition_key) FROM outbox_messages`); n < 2 {
				t.Errorf("they came through %d partition", n)
			}
			first.end(t)
			waitCanaries(t, "the other one goes on", func() bool { n, _ := canaries(t, two); return n >= 2 })
			_, failed := canaries(t, two)
			if n := c.Count(t, `SELECT count(*) FROM events WHERE (topic, event_type) <> ('postrider', 'canary')`); n != 0 || failed != 0 {
				t.Errorf("%d other events, %d failures", n, failed)
			}
			second.end(t)
			wantNothingLeft(t, c, two.Registerer)
		})
	}
}

// A canary that cannot come through is overdue, and says where it is; no other follows it. Delivery alone decides whether a worker is ready.
func TestACanaryIsOverdue(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 2})
	cfg := withCanary(c)
	w := start(t, cfg, func(w *worker.Worker) { w.CanaryStreams(2) })
	w.waitOwned(t, 2)
	waitCanaries(t, "one was read", func() bool { n, _ := canaries(t, cfg); return n >= 1 })
	set(t, c, `UPDATE outbox_partitions SET paused_at = clock_timestamp()`)
	overdue(t, c, "is not in the stream")
	_, before := canaries(t, cfg)
	waitCanaries(t, "further intervals go by", func() bool { _, n := canaries(t, cfg); return n >= before+3 })
	if n := c.Count(t, `SELECT count(*) FROM outbox`); n != 2 {
		t.Errorf("%d canaries wait, want one of each stream", n)
	}
	if err := w.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	read, _ := canaries(t, cfg)
	set(t, c, `UPDATE outbox_partitions SET paused_at = NULL`)
	waitCanaries(t, "others are read", func() bool { n, _ := canaries(t, cfg); return n >= read+2 })
	overdue(t, c, "")

	js := c.NATS.JetStream(t)
	if err := js.DeleteStream(t.Context(), natstest.StreamName); err != nil {
		t.Fatal(err)
	}
	overdue(t, c, "stream")
	c.NATS.Stream(t, 1)
	read, _ = canaries(t, cfg)
	waitCanaries(t, "others are read from the new stream", func() bool { n, _ := canaries(t, cfg); return n >= read+2 })
	overdue(t, c, "")
	w.end(t)
}

// A canary that its own program's transform refuses dies, and is not left among the dead.
func TestADeadCanaryIsDiscarded(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 2})
	cfg := withCanary(c)
	cfg.Delivery.Transforms = []shape.Transform{func(_ context.Context, d *shape.Draft) error {
		if d.Topic == worker.CanaryTopic {
			return fmt.Errorf("%w: what is this?", shape.ErrPermanent)
		}
		return nil
	}}
	w := start(t, cfg)
	overdue(t, c, "died, and were discarded")
	waitCanaries(t, "it is tried again", func() bool { return w.Stats().Dead >= 2 })
	c.WaitCount(t, 1, `SELECT count(*) FROM outbox_messages WHERE state = 'discarded'`)
	w.end(t)
	if n := c.Count(t, `SELECT count(*) FROM outbox_messages WHERE state = 'dead'`); n > 1 { // the last one may not have been looked at
		t.Errorf("%d are dead", n)
	}
}

// A canary that nothing has to deliver any more, as after a failover that forgot it, is told of once, and not for ever.
func TestACanaryThatNeverComesIsForgotten(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 2})
	cfg := withCanary(c)
	w := start(t, cfg)
	w.waitOwned(t, 2)
	waitCanaries(t, "one was read", func() bool { n, _ := canaries(t, cfg); return n >= 1 })
	set(t, c, `UPDATE outbox_partitions SET paused_at = clock_timestamp()`)
	overdue(t, c, "is not in the stream")
	set(t, c, `DELETE FROM outbox`)
	overdue(t, c, "nothing brings it there: it is unknown")
	set(t, c, `UPDATE outbox_partitions SET paused_at = NULL`)
	overdue(t, c, "")
	w.end(t)
}

// A canary is not given up while the stream does not say what it holds.
func TestACanaryIsNotGivenUpUnseen(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 2, Proxied: true})
	cfg := withCanary(c)
	cfg.NATSURL = c.Brokers[0].URL()
	w := start(t, cfg, func(w *worker.Worker) { w.CanaryStreams(2) })
	waitCanaries(t, "one was read", func() bool { n, _ := canaries(t, cfg); return n >= 1 })
	c.Brokers[0].DropMessages(func(m faultproxy.Message) bool { return bytes.Contains(m.Payload, []byte("stream_msg_get_response")) })
	sent, failed := canaries(t, cfg)
	waitCanaries(t, "intervals go by", func() bool { _, n := canaries(t, cfg); return n >= failed+6 })
	if n := c.Count(t, `SELECT count(*) FROM events`); n > sent+3 { // one may have been under way
		t.Errorf("%d were sent after %d: some were given up", n, sent)
	}
	w.end(t)
}

// Who asks for a canary that nobody could leave out, or that would never come, is told so.
func TestWrongCanariesAreRefused(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 2})
	for part, change := range map[string]func(*worker.Config){
		"must lie between 1s and 24h": func(cfg *worker.Config) { cfg.Canary = time.Millisecond },
		"must have {topic}": func(cfg *worker.Config) {
			cfg.Shape.Subject, _ = wire.ParseSubject("events.{type}")
		},
	} {
		cfg := withCanary(c)
		change(&cfg)
		if _, err := worker.New(t.Context(), cfg); !errors.Is(err, worker.ErrConfig) || !strings.Contains(err.Error(), "--canary") || !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %v, want one with %q", err, part)
		}
	}
}

// Between a canary's insert and its commit nothing goes over the network: its stream is locked meanwhile, however far the database is.
func TestACanaryHoldsNoLockOverTheNetwork(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 2, Proxied: true})
	cfg := withCanary(c)
	cfg.DatabaseURL = c.Database.URL()
	w := start(t, cfg)
	w.waitOwned(t, 2)
	c.Database.Latency(faultproxy.Both, 100*time.Millisecond)
	held := 0
	waitCanaries(t, "three were read", func() bool {
		held += c.Count(t, `SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE '%outbox_append_batch%'
			AND clock_timestamp() - state_change > interval '90 ms'`) // a trip takes longer
		n, _ := canaries(t, cfg)
		return n >= 3
	})
	if held > 0 {
		t.Errorf("an open transaction of a canary was seen %d times", held)
	}
}
