package faults_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
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

// The stream's replicas are taken away and given back under load: nobody notices but who asks for durability.
func TestReplicasChange(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: 3})
	s := begin(t, setting{Config: clustertest.Config{NATS: brokers.Server, Replicas: 3, Flags: shortTTL()}})
	for _, replicas := range []int{1, 3, 1, 3} {
		stream, err := s.NATS.JetStream(t).Stream(t.Context(), natstest.StreamName)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.Replicas = replicas
		edit(t, s.NATS, config)
		if replicas == 3 {
			brokers.WaitCurrent(t)
		}
		s.subscriber.WaitReceived(t, 500)
	}
	s.wantUntouched(t)
	s.Verify(t)
	s.wantNothingFailed(t)
	s.report(t, 4)
}

func edit(t *testing.T, server *natstest.Server, config jetstream.StreamConfig) {
	t.Helper()
	if _, err := server.JetStream(t).UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}
