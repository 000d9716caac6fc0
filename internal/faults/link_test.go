package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// linked is a stage behind proxies, and its brokers.
func linked(t *testing.T, nodes int, flags ...string) *stage {
	t.Helper()
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: nodes})
	return begin(t, setting{Config: clustertest.Config{NATS: brokers.Server, Replicas: nodes, Flags: shortTTL(flags...), Proxied: true}})
}

// eachBroker does it to the proxy of every node.
func (s *stage) eachBroker(do func(*faultproxy.NATS)) {
	for _, b := range s.Brokers {
		do(b)
	}
}

// commits matches what stores something of a partition: the end of an atomic batch, or a message that is stored by itself.
func commits(m faultproxy.Message) bool {
	return m.Get("Nats-Batch-Commit") == "1" || m.Get("Nats-Expected-Last-Subject-Sequence-Subject") != ""
}

// Connections break behind the message that commits a batch, and in the place of its acknowledgement; and
// acknowledgements are lost without a break.
func TestLostAcknowledgements(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("short", func(t *testing.T) { lostAcks(t, 1, 3) }) //nolint:paralleltest // clusters run one at a time
	for name, nodes := range topologies() {                  //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			lostAcks(t, nodes, 10)
		})
	}
}

func lostAcks(t *testing.T, nodes, rounds int) {
	t.Helper()
	random := seeded(t, 5)
	s := linked(t, nodes, "--ack-timeout=500ms")
	dropped := 0
	for range rounds {
		s.strikeOnce(t, "a cut behind a commit", func(b *faultproxy.NATS) *faultproxy.Trigger { return b.CutAfterPub(commits) })
		s.strikeOnce(t, "a cut at an acknowledgement", func(b *faultproxy.NATS) *faultproxy.Trigger { return b.CutAtAck(faultproxy.PubAck) })
		var drops []*faultproxy.Drop
		s.eachBroker(func(b *faultproxy.NATS) { drops = append(drops, b.DropMessages(faultproxy.PubAck)) })
		last(t.Context(), between(random, 300*time.Millisecond, 1500*time.Millisecond))
		for _, drop := range drops {
			dropped += drop.Stop()
		}
		s.subscriber.WaitReceived(t, 300)
	}
	if dropped == 0 {
		t.Error("no acknowledgement was dropped")
	}
	s.wantUntouched(t)
	s.Verify(t)
	s.wantNothingFailed(t)
	s.report(t, 2*rounds+dropped)
	s.eachBroker(func(b *faultproxy.NATS) { t.Logf("a broker's proxy: %s", b.Counters()) })
}

// strikeOnce arms a trigger on every broker's proxy and waits for the first to fire.
func (s *stage) strikeOnce(t *testing.T, what string, arm func(*faultproxy.NATS) *faultproxy.Trigger) {
	t.Helper()
	var triggers []*faultproxy.Trigger
	s.eachBroker(func(b *faultproxy.NATS) { triggers = append(triggers, arm(b)) })
	clustertest.Until(t, what+" strikes", func(context.Context) (bool, error) {
		return slices.ContainsFunc(triggers, func(one *faultproxy.Trigger) bool {
			select {
			case <-one.Fired():
				return true
			default:
				return false
			}
		}), nil
	}, nil)
	for _, one := range triggers {
		one.Stop()
	}
	s.subscriber.WaitReceived(t, 200)
}

// Bytes of owners that are dead reach the broker after others have taken over and gone on.
func TestLateBytes(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("short", func(t *testing.T) { lateBytes(t, 1, 1) }) //nolint:paralleltest // clusters run one at a time
	for name, nodes := range topologies() {                   //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			lateBytes(t, nodes, 5)
		})
	}
}

func lateBytes(t *testing.T, nodes, rounds int) {
	t.Helper()
	s := linked(t, nodes, "--ack-timeout=500ms")
	late := int64(0)
	for range rounds {
		s.eachBroker(func(b *faultproxy.NATS) { b.HoldPresent(faultproxy.ClientToServer) })
		clustertest.Until(t, "batches wait in the proxies", func(context.Context) (bool, error) {
			return s.waiting() > 64<<10, nil
		}, func() string { return fmt.Sprintf("%d bytes do", s.waiting()) })
		for len(s.workers) > 0 {
			s.kill(t, 0)
		}
		s.workers = s.Start(t, 3) // their connections are new and not held
		s.WaitHeld(t, s.workers...)
		s.subscriber.WaitReceived(t, 1000) // so that they have gone past what is on its way
		s.eachBroker(func(b *faultproxy.NATS) { b.Release() })
		s.subscriber.WaitReceived(t, 300)
	}
	s.Verify(t)
	s.eachBroker(func(b *faultproxy.NATS) { late += b.Counters().ReleasedBytes })
	if late == 0 {
		t.Error("no byte was late")
	}
	t.Logf("%d bytes came late", late)
	s.report(t, rounds)
}

// waiting is how many bytes wait in the brokers' proxies.
func (s *stage) waiting() (n int) {
	s.eachBroker(func(b *faultproxy.NATS) { n += b.Waiting(faultproxy.ClientToServer) })
	return n
}

// One worker is cut off in one direction of one link, for longer than its leases last, while the others go on.
func TestBlackholes(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	slow.Test(t)
	for name, nodes := range topologies() { //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) { blackholes(t, nodes) })
	}
}

func blackholes(t *testing.T, nodes int) {
	t.Helper()
	s := linked(t, nodes)
	s.passProxies(t)
	faults := 0
	for _, direction := range []faultproxy.Direction{faultproxy.ClientToServer, faultproxy.ServerToClient, faultproxy.Both} {
		s.Database.Blackhole(direction, true)
		t.Logf("without the database, direction %d: the others hold all after %s", direction, s.WaitHeld(t, s.workers[1:]...))
		last(t.Context(), ttl)
		s.Database.Blackhole(direction, false)
		t.Logf("back after %s", s.WaitShared(t, s.workers...))

		s.eachBroker(func(b *faultproxy.NATS) { b.Blackhole(direction, true) })
		last(t.Context(), 2*ttl) // its leases stay: nobody can tell that it reaches the broker no more
		s.subscriber.WaitReceived(t, 300)
		s.eachBroker(func(b *faultproxy.NATS) { b.Blackhole(direction, false) })
		s.subscriber.WaitReceived(t, 300)
		faults += 2
	}
	s.wantUntouched(t)
	s.Verify(t)
	s.wantNothingFailed(t)
	s.report(t, faults)
}

// passProxies leaves the first worker behind the proxies and has two others go past them.
func (s *stage) passProxies(t *testing.T) {
	t.Helper()
	for len(s.workers) > 1 {
		s.leave(t, 1)
	}
	s.workers = append(s.workers, s.StartDirect(t, 2)...)
	s.WaitShared(t, s.workers...)
}

// Links are slow, narrow, or cut at random.
func TestPoorLinks(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("short", func(t *testing.T) { poorLinks(t, 1, 1) }) //nolint:paralleltest // clusters run one at a time
	for name, nodes := range topologies() {                   //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			poorLinks(t, nodes, 3)
		})
	}
}

func poorLinks(t *testing.T, nodes, rounds int) {
	t.Helper()
	random := seeded(t, 6)
	s := linked(t, nodes, "--lease-ttl=10s", "--ack-timeout=2s") // a renewal takes some round trips
	for range rounds {
		s.eachLink(func(p *faultproxy.Proxy) { p.Latency(faultproxy.Both, 200*time.Millisecond) })
		s.subscriber.WaitReceived(t, 300)
		s.eachLink(func(p *faultproxy.Proxy) { p.Latency(faultproxy.Both, 0); p.Throttle(faultproxy.Both, 50_000) })
		s.subscriber.WaitReceived(t, 300)
		s.eachLink(func(p *faultproxy.Proxy) { p.Throttle(faultproxy.Both, 0) })
		s.cutAtRandom(t, random, 10)
		s.subscriber.WaitReceived(t, 300)
	}
	s.Verify(t)
	s.wantNothingFailed(t)
	s.report(t, rounds*12)
}

// eachLink does it to every proxy.
func (s *stage) eachLink(do func(*faultproxy.Proxy)) {
	do(s.Database.Proxy)
	s.eachBroker(func(b *faultproxy.NATS) { do(b.Proxy) })
}

// cutAtRandom resets the connections of one link, and of another some time later.
func (s *stage) cutAtRandom(t *testing.T, random *rand.Rand, times int) {
	t.Helper()
	for range times {
		if i := random.IntN(len(s.Brokers) + 1); i < len(s.Brokers) {
			s.Brokers[i].Cut()
		} else {
			s.Database.Cut()
		}
		last(t.Context(), between(random, 50*time.Millisecond, 300*time.Millisecond))
	}
}
