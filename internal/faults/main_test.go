package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// TestMain runs the tests, or is one of the consumers that they start as processes of their own.
func TestMain(m *testing.M) {
	if settings := os.Getenv(consumerVariable); settings != "" {
		if err := serveConsumer(context.Background(), settings); err != nil {
			fmt.Fprintln(os.Stderr, "consumer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	clustertest.Main(m)
}

const (
	// ttl is the lease TTL of most scenarios: short, so that takeovers are many.
	ttl = 3 * time.Second
	// durationVariable sets how long random kills go on in slow tests.
	durationVariable = "POSTRIDER_FAULT_DURATION"
)

// shortTTL are the flags of ttl.
func shortTTL(more ...string) []string {
	return append([]string{"--lease-ttl=" + ttl.String()}, more...)
}

// topologies are the numbers of brokers, and of replicas, that slow tests run on.
func topologies() map[string]int { return map[string]int{"R1": 1, "R3": 3} }

// faultDuration is how long the faults of slow tests go on.
func faultDuration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(durationVariable)
	if text == "" {
		return time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s must be a duration above 0 such as 5m, got %q", durationVariable, text)
	}
	return d
}

// seeded returns a source of randomness, and prints its seed.
func seeded(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0)) // which faults come is no secret
}

// between draws a duration.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)+1))
}

// last waits for a fault's duration: there is nothing else to wait for. It returns false when the context ends first.
func last(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stage is a cluster under load.
type stage struct {
	*clustertest.Cluster
	workers    []*clustertest.Worker
	gone       []*clustertest.Worker // for what they counted
	subscriber *clustertest.Subscriber
	load       *clustertest.Producer
	takeovers  *takeovers
}

// setting describes a stage.
type setting struct {
	clustertest.Config
	// Workers defaults to 3.
	Workers int
	Load    clustertest.Load
	// Observe sees every message that the subscriber receives. May be nil.
	Observe func(ledger.Message)
}

// begin makes the cluster and starts the workers, the subscriber and the load.
func begin(t *testing.T, set setting) *stage {
	t.Helper()
	return under(t, clustertest.New(t, set.Config), set)
}

// under starts the workers, the subscriber and the load.
func under(t *testing.T, c *clustertest.Cluster, set setting) *stage {
	t.Helper()
	if set.Workers == 0 {
		set.Workers = 3
	}
	s := &stage{Cluster: c}
	s.workers = s.Start(t, set.Workers)
	s.WaitShared(t, s.workers...)
	s.subscriber = s.Subscribe(t, set.Observe)
	s.load = s.Produce(t, set.Load)
	s.takeovers = watchTakeovers(t, s.Cluster)
	s.subscriber.WaitReceived(t, 300)
	return s
}

// kill ends worker i at once.
func (s *stage) kill(t *testing.T, i int) {
	t.Helper()
	w := s.workers[i]
	w.Signal(t, syscall.SIGKILL)
	<-w.Ended()
	s.takeovers.died(w.ID)
	s.workers = slices.Delete(s.workers, i, i+1)
	s.gone = append(s.gone, w)
}

// leave has worker i end in good order.
func (s *stage) leave(t *testing.T, i int) {
	t.Helper()
	w := s.workers[i]
	w.Signal(t, syscall.SIGTERM)
	if code := w.Exit(t); code != 0 {
		t.Errorf("a worker that was asked to end ended with status %d: %s", code, w.Stderr())
	}
	s.workers = slices.Delete(s.workers, i, i+1)
	s.gone = append(s.gone, w)
}

// replace kills worker i and starts another one.
func (s *stage) replace(t *testing.T, i int) {
	t.Helper()
	s.kill(t, i)
	s.workers = append(s.workers, s.Start(t, 1)...)
}

// counts adds up what all workers counted, those that are gone included.
func (s *stage) counts(t *testing.T) (sum clustertest.Tick) {
	t.Helper()
	for _, w := range slices.Concat(s.workers, s.gone) {
		one := w.Sum(t)
		sum.Published += one.Published
		sum.Failed += one.Failed
		sum.Dead += one.Dead
		sum.Fenced += one.Fenced
		sum.Refused += one.Refused
		sum.Lost += one.Lost
	}
	return sum
}

// report logs the figures of a scenario.
func (s *stage) report(t *testing.T, faults int) {
	t.Helper()
	sum := s.counts(t)
	t.Logf("faults %d; the database refused %d messages, the stream %d batches or takeovers; %d leases were lost; %s",
		faults, sum.Fenced, sum.Refused, sum.Lost, s.takeovers)
}

// wantUntouched wants no row that carries a trace of an outage.
func (s *stage) wantUntouched(t *testing.T) {
	t.Helper()
	if n := s.Count(t, `SELECT count(*) FROM outbox WHERE attempts > 0 OR dead_at IS NOT NULL OR last_error IS NOT NULL OR parked`); n != 0 {
		t.Errorf("%d rows were blamed for the outage", n)
	}
}
