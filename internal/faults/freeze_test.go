package faults_test

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// Workers are stopped at random instants for twice the TTL and wake up as zombies: whatever they had in hand is refused.
func TestFrozenOwners(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("short", func(t *testing.T) { frozenOwners(t, 1, 1) })
	for name, nodes := range topologies() { //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			frozenOwners(t, nodes, 8)
		})
	}
}

func frozenOwners(t *testing.T, nodes, rounds int) {
	t.Helper()
	random := seeded(t, 2)
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: nodes})
	s := begin(t, setting{
		Config: clustertest.Config{NATS: brokers.Server, Replicas: nodes, Flags: shortTTL(), Proxied: true},
		// So busy that a worker is never found idle.
		Load: clustertest.Load{Writers: 6, Every: time.Millisecond},
	})
	s.passProxies(t)
	// An instant at which the worker has nothing in hand proves nothing; then there are more.
	most := rounds + 4
	for n := 0; n < rounds || n < most && s.counts(t).Fenced == 0; n++ {
		last(t.Context(), between(random, 200*time.Millisecond, time.Second))
		if n%2 == 1 {
			s.freeze(t, random.IntN(len(s.workers)), 2*ttl)
			s.subscriber.WaitReceived(t, 500)
			continue
		}
		// The other time with statements on their way to the database that arrive when others have taken over.
		s.Database.HoldPresent(faultproxy.ClientToServer)
		last(t.Context(), between(random, 100*time.Millisecond, 500*time.Millisecond))
		s.freeze(t, 0, 2*ttl)
		s.Database.Release()
		s.subscriber.WaitReceived(t, 500)
	}
	s.WaitShared(t, s.workers...)
	s.Verify(t)
	s.report(t, rounds)
	if s.counts(t).Fenced == 0 {
		t.Errorf("the database refused nothing in %d rounds: no worker was stopped in its work", most)
	}
}

// freeze stops worker i for that long, and lets the others take over meanwhile.
func (s *stage) freeze(t *testing.T, i int, d time.Duration) {
	t.Helper()
	frozen := s.workers[i]
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	frozen.Signal(t, syscall.SIGSTOP)
	defer frozen.Signal(t, syscall.SIGCONT)
	if d > ttl+ttl/2 {
		s.WaitHeld(t, slices.Delete(slices.Clone(s.workers), i, i+1)...)
	}
	<-ctx.Done()
}
