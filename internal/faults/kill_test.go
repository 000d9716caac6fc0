package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// Workers are killed at random, every one to three seconds, and replaced.
func TestRandomKills(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("short", func(t *testing.T) { randomKills(t, 1, 15*time.Second) }) //nolint:paralleltest // clusters run one at a time
	for name, nodes := range topologies() {                                  //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			randomKills(t, nodes, faultDuration(t))
		})
	}
}

func randomKills(t *testing.T, nodes int, duration time.Duration) {
	t.Helper()
	random := seeded(t, 1)
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: nodes})
	s := begin(t, setting{Config: clustertest.Config{NATS: brokers.Server, Replicas: nodes, Flags: shortTTL()}})
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	kills := 0
	for last(ctx, between(random, time.Second, 3*time.Second)) {
		s.replace(t, random.IntN(len(s.workers)))
		kills++
	}
	s.Verify(t)
	s.report(t, kills)
}
