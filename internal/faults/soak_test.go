package faults_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// The variables of a soak, as `make soak` sets them.
const (
	soakDuration = "POSTRIDER_SOAK_DURATION" // a Go duration; makes the test run
	soakSeed     = "POSTRIDER_SOAK_SEED"     // a whole number
	soakBatches  = "POSTRIDER_SOAK_BATCHES"  // 1, or 0: the stream takes none, so that messages go one by one
	soakNodes    = "POSTRIDER_SOAK_NODES"    // 1 or 3
)

// soakPlan is what a soak is asked to do.
type soakPlan struct {
	duration time.Duration
	seed     uint64
	batches  bool
	nodes    int
}

// planSoak reads the variables; without a duration it is the short form of the slow tests.
func planSoak(t *testing.T) soakPlan {
	t.Helper()
	p := soakPlan{duration: time.Minute, seed: 1, batches: true, nodes: 3}
	if text := os.Getenv(soakDuration); text == "" {
		slow.Test(t)
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		p.duration = d
	} else {
		t.Fatalf("%s must be a duration above 0 such as 10m, got %q", soakDuration, text)
	}
	if text := os.Getenv(soakSeed); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s must be a whole number, got %q", soakSeed, text)
		}
		p.seed = seed
	}
	if text := os.Getenv(soakBatches); text != "" {
		if text != "0" && text != "1" {
			t.Fatalf("%s must be 0 or 1, got %q", soakBatches, text)
		}
		p.batches = text == "1"
	}
	if text := os.Getenv(soakNodes); text != "" {
		if text != "1" && text != "3" {
			t.Fatalf("%s must be 1 or 3, got %q", soakNodes, text)
		}
		p.nodes, _ = strconv.Atoi(text)
	}
	return p
}

// storing is how messages are stored, in words.
func (p soakPlan) storing() string {
	if p.batches {
		return "batches"
	}
	return "one by one"
}

// soak is a stage that everything happens to.
type soak struct {
	*stage
	*strikes

	plan     soakPlan
	brokers  *clustertest.Brokers
	database *localpg.Server
}

// Random faults of all kinds, for as long as is asked for.
func TestSoak(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	plan := planSoak(t)
	s := &soak{plan: plan, strikes: newStrikes(t, plan.seed)}
	t.Cleanup(func() { s.write(t) }) // after everything else, so that it knows of all failures
	s.brokers = clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: plan.nodes})
	var url string
	s.database, url = ownDatabase(t, localpg.Config{})
	s.stage = begin(t, setting{
		Config: clustertest.Config{
			NATS: s.brokers.Server, Replicas: plan.nodes, NoBatches: !plan.batches, DatabaseURL: url, Proxied: true,
			Flags: shortTTL("--ack-timeout=1s"),
		},
		Load: clustertest.Load{Outages: true},
	})
	s.start = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), plan.duration)
	defer cancel()
	for last(ctx, between(s.random, 0, time.Second)) {
		s.inject(t, s.faults())
		s.subscriber.WaitReceived(t, 50)
	}
	s.subscriber.WaitReceived(t, 300)
	s.WaitShared(t, s.workers...)
	if os.Getenv(soakViolation) == "1" {
		s.violate(t)
	}
	report := s.Verify(t)
	s.conclude(t, report)
}

// conclude prints what happened.
func (s *soak) conclude(t *testing.T, r ledger.Report) {
	t.Helper()
	total, kinds := s.sum()
	violations := r.Lost + r.Reordered + r.Duplicates + others(r)
	t.Logf("soak: seed %d, %s, brokers %d, %s", s.plan.seed, s.plan.storing(), s.plan.nodes, s.plan.duration)
	t.Logf("soak: %d faults: %s", total, kinds)
	t.Logf("soak: events committed %d, received %d, of unknown outcome and received %d", r.Committed, r.Received, r.UnknownReceived)
	t.Logf("soak: violations %d (lost %d, reordered %d, duplicates %d), other failures: %v", violations, r.Lost, r.Reordered, r.Duplicates, t.Failed())
	s.report(t, total)
}
