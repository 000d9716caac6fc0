package faults_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// inboxSoak is a stage whose consumers everything happens to.
type inboxSoak struct {
	*stage
	*strikes

	brokers   *clustertest.Brokers
	consumers *consumers
	lanes     *laneWatch
}

// Random faults of consumers, of their database and of the broker that they read, for as long as is asked for: each effect is there once.
func TestInboxSoak(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	plan := planSoak(t)
	s := &inboxSoak{strikes: newStrikes(t, plan.seed)}
	s.brokers = clustertest.StartBrokers(t, clustertest.BrokerConfig{})
	c := clustertest.New(t, clustertest.Config{NATS: s.brokers.Server, Partitions: 16, Flags: shortTTL("--ack-timeout=1s")})
	s.stage = &stage{Cluster: c, workers: c.Start(t, 3)}
	c.WaitShared(t, s.workers...)
	s.takeovers = watchTakeovers(t, c)
	s.consumers = startConsumers(t, c, 3)
	s.load = c.Produce(t, clustertest.Load{Writers: 2, Streams: 100, Every: 30 * time.Millisecond})
	s.lanes = watchLanes(t, s.consumers, c.NATS.JetStream(t))
	s.start = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), plan.duration)
	defer cancel()
	for last(ctx, between(s.random, 0, 2*time.Second)) {
		s.inject(t, s.faults())
	}
	s.load.Stop(t)
	s.Ledger.Finish()
	report := s.settled(t)
	total, kinds := s.sum()
	t.Logf("inbox soak: seed %d, %s, %d faults: %s", plan.seed, time.Since(s.start).Round(time.Second), total, kinds)
	t.Logf("inbox soak: effects: %s", report)
	t.Logf("inbox soak: %s", s.lanes)
	if !report.OK() {
		t.Error("the effects are not those of what was committed, each once and in the order of its stream")
	}
	if n := s.parked(t); n > 0 {
		t.Errorf("%d messages are parked or malformed", n)
	}
}

// settled waits until each committed event has its effect, and judges them.
func (s *inboxSoak) settled(t *testing.T) (r ledger.Report) {
	t.Helper()
	done := 0
	clustertest.Until(t, "all effects are there", func(ctx context.Context) (bool, error) {
		seen := -1
		if err := s.consumers.pool.QueryRow(ctx, `SELECT count(*) FROM effects`).Scan(&seen); err != nil || seen == done {
			return false, err
		}
		done = seen
		var err error
		r, err = s.judge(ctx)
		return err == nil && r.Lost == 0, err
	}, func() string { return r.String() + "\n" + s.consumers.describe(context.WithoutCancel(t.Context())) })
	return r
}

// judge compares the effects with the ledger.
func (s *inboxSoak) judge(ctx context.Context) (ledger.Report, error) {
	checker, err := ledger.NewChecker(ledger.Config{Ledger: s.Ledger, Ordering: ledger.ByStream, ContiguousVersions: true})
	if err != nil {
		return ledger.Report{}, err
	}
	err = s.consumers.effects(ctx, func(m ledger.Message) { checker.Receive(m) })
	return checker.Report(), err
}

// parked counts the messages that wait for a person, or for another.
func (s *inboxSoak) parked(t *testing.T) (n int) {
	t.Helper()
	err := s.consumers.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM inbox_parked) + (SELECT count(*) FROM inbox_malformed)`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *inboxSoak) faults() []fault {
	return []fault{
		{"kill a consumer", partConsumers, 6, surely(s.killConsumer)},
		{"stop a consumer", partConsumers, 2, surely(s.stopConsumer)},
		{"freeze a consumer", partConsumers, 5, surely(s.freezeConsumer)},
		{"consumers' database forgets", partDatabase, 3, surely(s.forget)},
		{"kill the consumers' database", partDatabase, 1, surely(s.killDatabase)},
		{"restore an older copy of the broker", partBrokers, 3, surely(s.restoreBroker)},
		{"kill the broker", partBrokers, 1, surely(s.killBroker)},
		{"kill a worker", partWorkers, 2, surely(s.killWorker)},
		{"stop a worker", partWorkers, 1, surely(s.stopWorker)},
	}
}

func (s *inboxSoak) victim() int { return s.random.IntN(len(s.consumers.running)) }

func (s *inboxSoak) killConsumer(t *testing.T) {
	t.Helper()
	s.lanes.died()
	s.consumers.part(t, s.victim(), syscall.SIGKILL)
	s.consumers.join(t)
}

func (s *inboxSoak) stopConsumer(t *testing.T) {
	t.Helper()
	s.consumers.part(t, s.victim(), syscall.SIGTERM)
	s.consumers.join(t)
}

func (s *inboxSoak) freezeConsumer(t *testing.T) {
	t.Helper()
	p := s.consumers.running[s.victim()]
	s.lanes.died()
	p.Signal(t, syscall.SIGSTOP)
	last(t.Context(), between(s.random, 100*time.Millisecond, 3*ttl))
	p.Signal(t, syscall.SIGCONT)
}

// while waits for a fault's duration; every third time a consumer dies meanwhile, every third time something else happens.
func (s *inboxSoak) while(t *testing.T, least, most time.Duration, other fault) {
	t.Helper()
	last(t.Context(), between(s.random, least, most)/2)
	switch s.random.IntN(3) {
	case 0:
		s.strike(t, fault{name: "kill a consumer amid that", part: partConsumers, strike: surely(s.killConsumer)})
	case 1:
		s.strike(t, other)
	}
	last(t.Context(), between(s.random, least, most)/2)
}

// forget has the consumers' database fail over to a copy that lacks what came since.
func (s *inboxSoak) forget(t *testing.T) {
	t.Helper()
	standby := pgtest.NewStandby(t, s.consumers.database)
	s.consumers.pool.Reset()
	s.lanes.void()
	s.while(t, 100*time.Millisecond, 2*ttl, fault{name: "restore an older copy of the broker amid that", part: partBrokers, strike: surely(s.restoreBroker)})
	standby.Promote(t)
	s.consumers.pool.Reset()
	s.lanes.void()
}

func (s *inboxSoak) killDatabase(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	if err := s.consumers.database.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	last(t.Context(), between(s.random, 0, 2*ttl))
	if err := s.consumers.database.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	s.consumers.pool.Reset()
	s.lanes.void()
}

// restoreBroker puts the broker's files back as an older copy has them.
func (s *inboxSoak) restoreBroker(t *testing.T) {
	t.Helper()
	folder, older := s.brokers.Folder(0), t.TempDir()+"/older"
	down := func(do func() error) {
		t.Helper()
		s.brokers.Kill(t, 0)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		s.brokers.Restart(t, 0)
		s.lanes.void()
	}
	down(func() error { return os.CopyFS(older, os.DirFS(folder)) })
	last(t.Context(), between(s.random, 100*time.Millisecond, 2*ttl))
	down(func() error {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		return os.Rename(older, folder)
	})
}

func (s *inboxSoak) killBroker(t *testing.T) {
	t.Helper()
	s.brokers.Kill(t, 0)
	last(t.Context(), between(s.random, 0, ttl))
	s.brokers.Restart(t, 0)
	s.lanes.void()
}

func (s *inboxSoak) killWorker(t *testing.T) {
	t.Helper()
	s.replace(t, s.random.IntN(len(s.workers)))
}

func (s *inboxSoak) stopWorker(t *testing.T) {
	t.Helper()
	s.leave(t, s.random.IntN(len(s.workers)))
	s.workers = append(s.workers, s.Start(t, 1)...)
}
