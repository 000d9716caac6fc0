package faults_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// statements are what the workers' transactions are told apart by.
var statements = map[string]func(sql string) bool{
	"mark":      faultproxy.Mentions("outbox_deliveries"),
	"renewal":   faultproxy.Mentions("SET lease_until = clock_timestamp()"),
	"takeover":  faultproxy.Mentions("SET lease_owner = $1"),
	"release":   faultproxy.Mentions("SET lease_owner = NULL"),
	"watermark": faultproxy.Mentions("SET safe_sequence"),
	"heartbeat": faultproxy.Mentions("heartbeat_until"),
	"claim":     faultproxy.Mentions("clock_timestamp() AS due"),
}

// Connections break exactly when the server is about to commit, and when it has committed and the worker does not know.
func TestCutAroundCommits(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("short", func(t *testing.T) { cutAroundCommits(t, 1, 1) })
	for name, nodes := range topologies() { //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			cutAroundCommits(t, nodes, 10)
		})
	}
}

func cutAroundCommits(t *testing.T, nodes, rounds int) {
	t.Helper()
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: nodes})
	s := begin(t, setting{Config: clustertest.Config{NATS: brokers.Server, Replicas: nodes, Flags: shortTTL(), Proxied: true}})
	cuts := 0
	for range rounds {
		for _, what := range slices.Sorted(maps.Keys(statements)) {
			for _, point := range []faultproxy.Point{faultproxy.BeforeServer, faultproxy.AfterServer} {
				trigger := s.Database.CutAtCommit(point, statements[what])
				if what == "takeover" || what == "release" { // somebody must come or go
					s.handOver(t)
				}
				fired(t, fmt.Sprintf("cut %d around the commit of a %s", point, what), trigger)
				s.subscriber.WaitReceived(t, 100)
				cuts++
			}
		}
	}
	s.WaitShared(t, s.workers...)
	s.wantUntouched(t)
	s.Verify(t)
	s.wantNothingFailed(t)
	t.Logf("the database's proxy: %s", s.Database.Counters())
	s.report(t, cuts)
}

// handOver has the oldest worker leave and another one come.
func (s *stage) handOver(t *testing.T) {
	t.Helper()
	s.leave(t, 0)
	s.workers = append(s.workers, s.Start(t, 1)...)
}

// fired waits until a trigger has struck.
func fired(t *testing.T, what string, trigger *faultproxy.Trigger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	select {
	case <-trigger.Fired():
	case <-ctx.Done():
		t.Fatalf("%s did not strike", what)
	}
}
