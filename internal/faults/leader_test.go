package faults_test

import (
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// The leader of a stream with three replicas is killed under load, again and again, and comes back; and so is a single
// broker.
func TestStreamLeaderIsKilled(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("R1 short", func(t *testing.T) { killLeaders(t, 1, 3) }) //nolint:paralleltest // clusters run one at a time
	t.Run("R3 short", func(t *testing.T) { killLeaders(t, 3, 1) }) //nolint:paralleltest // clusters run one at a time
	for name, nodes := range topologies() {                        //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			killLeaders(t, nodes, 10)
		})
	}
}

func killLeaders(t *testing.T, nodes, times int) {
	t.Helper()
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: nodes})
	s := begin(t, setting{Config: clustertest.Config{NATS: brokers.Server, Replicas: nodes, Flags: shortTTL()}})
	for range times {
		leader := brokers.Leader(t)
		brokers.Kill(t, leader)
		if nodes > 1 { // the others elect a new one and go on
			s.subscriber.WaitReceived(t, 300)
		}
		brokers.Restart(t, leader)
		brokers.WaitCurrent(t)
		s.subscriber.WaitReceived(t, 300)
	}
	s.wantUntouched(t)
	s.Verify(t)
	s.report(t, times)
}
