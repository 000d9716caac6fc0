package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// Workers are killed at random, every one to three seconds, and replaced.
func TestRandomKills(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("short", amidTrims)
	for name, nodes := range topologies() { //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			randomKills(t, nodes, faultDuration(t))
		})
	}
}

// amidTrims kills owners between a record, its mark, and the removal of older ones.
func amidTrims(t *testing.T) {
	t.Helper()
	s := randomKills(t, 1, 20*time.Second, "--keep-records=500ms")
	batches, left := s.Count(t, `SELECT count(*) FROM outbox_deliveries`), s.Contents(t)
	clustertest.Until(t, "most records are removed", func(context.Context) (bool, error) {
		left = s.Contents(t) //nolint:contextcheck // of the test
		return 2*left.Watermarks <= batches, nil
	}, func() string { return fmt.Sprintf("%d batches have left %d records", batches, left.Watermarks) })
	t.Logf("%d batches have left %d records", batches, left.Watermarks)
}

func randomKills(t *testing.T, nodes int, duration time.Duration, flags ...string) *stage {
	t.Helper()
	random := seeded(t, 1)
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: nodes})
	s := begin(t, setting{Config: clustertest.Config{NATS: brokers.Server, Replicas: nodes, Flags: shortTTL(flags...)}})
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	kills := 0
	for last(ctx, between(random, time.Second, 3*time.Second)) {
		s.replace(t, random.IntN(len(s.workers)))
		kills++
	}
	s.Verify(t)
	s.report(t, kills)
	return s
}
