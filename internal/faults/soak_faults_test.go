package faults_test

import (
	"context"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
)

func (s *soak) faults() []fault {
	return []fault{
		{"kill a worker", partWorkers, 6, surely(s.killWorker)},
		{"stop a worker", partWorkers, 3, surely(s.stopWorker)},
		{"change the number of workers", partWorkers, 2, surely(s.scale)},
		{"kill a broker", partBrokers, 2, surely(s.killBroker)},
		{"kill the database", partDatabase, 1, surely(s.killDatabase)},
		{"cut the database's links", partLinks, 2, surely(func(*testing.T) { s.takeovers.void(); s.Database.Cut() })},
		{"cut a broker's links", partLinks, 2, surely(func(*testing.T) { s.broker().Cut() })},
		{"cut around a commit", partLinks, 4, s.cutAtCommit},
		{"cut at an acknowledgement", partLinks, 3, s.cutAtAck},
		{"drop acknowledgements", partLinks, 2, surely(s.dropAcks)},
		{"slow or narrow link", partLinks, 2, surely(s.poorLink)},
		{"refuse connections", partLinks, 1, surely(s.refuse)},
		{"open transaction", partProducers, 2, surely(s.openTransaction)},
		{"freeze a worker", partWorkers, 4, surely(s.freezeWorker)},
		{"late bytes", partLinks, 3, surely(s.lateBytes)},
		{"black hole", partLinks, 3, surely(s.blackhole)},
	}
}

func (s *soak) broker() *faultproxy.NATS { return s.Brokers[s.random.IntN(len(s.Brokers))] }

func (s *soak) worker() int { return s.random.IntN(len(s.workers)) }

// join starts a worker, behind the proxies or past them.
func (s *soak) join(t *testing.T) {
	t.Helper()
	start := s.Start
	if s.random.IntN(2) == 0 {
		start = s.StartDirect
	}
	s.workers = append(s.workers, start(t, 1)...)
}

func (s *soak) killWorker(t *testing.T) {
	t.Helper()
	s.kill(t, s.worker())
	s.join(t)
}

func (s *soak) stopWorker(t *testing.T) {
	t.Helper()
	s.leave(t)
	s.join(t)
}

// leave has a worker end in good order.
func (s *soak) leave(t *testing.T) {
	t.Helper()
	s.stage.leave(t, s.worker())
}

func (s *soak) scale(t *testing.T) {
	t.Helper()
	switch n := len(s.workers); {
	case n <= 2, n < 5 && s.random.IntN(2) == 0:
		s.join(t)
	default:
		s.leave(t)
	}
}

// while waits for a fault's duration; every other time a worker dies meanwhile.
func (s *soak) while(t *testing.T, least, most time.Duration) {
	t.Helper()
	d := between(s.random, least, most)
	if s.random.IntN(2) == 0 {
		last(t.Context(), d)
		return
	}
	last(t.Context(), d/2)
	s.strike(t, fault{name: "kill a worker amid that", part: partWorkers, strike: surely(func(t *testing.T) { t.Helper(); s.kill(t, s.worker()) })})
	s.workers = append(s.workers, s.StartDirect(t, 1)...)
	last(t.Context(), d/2)
}

func (s *soak) freezeWorker(t *testing.T) {
	t.Helper()
	s.takeovers.void()
	w := s.workers[s.worker()]
	w.Signal(t, syscall.SIGSTOP)
	last(t.Context(), between(s.random, 100*time.Millisecond, 2*ttl))
	w.Signal(t, syscall.SIGCONT)
	s.takeovers.void()
}

// killBroker takes any node, or the stream's leader.
func (s *soak) killBroker(t *testing.T) {
	t.Helper()
	i := s.random.IntN(s.brokers.Count())
	if s.random.IntN(2) == 0 {
		i = s.brokers.Leader(t)
	}
	s.brokers.Kill(t, i)
	last(t.Context(), between(s.random, 0, ttl))
	s.brokers.Restart(t, i)
	s.brokers.WaitCurrent(t)
}

func (s *soak) killDatabase(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	s.takeovers.void()
	if err := s.database.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	last(t.Context(), between(s.random, 0, 2*ttl))
	s.stage.restart(t, s.database)
}

// cutAtCommit waits for the statement no longer than it may take to come by: there may be no worker behind the proxies.
func (s *soak) cutAtCommit(t *testing.T) (struck bool) {
	t.Helper()
	s.takeovers.void()
	names := slices.Sorted(maps.Keys(statements))
	match := statements[names[s.random.IntN(len(names))]]
	point := faultproxy.BeforeServer
	if s.random.IntN(2) == 0 {
		point = faultproxy.AfterServer
	}
	trigger := s.Database.CutAtCommit(point, match)
	defer trigger.Stop()
	return s.await(t, trigger, 2*time.Second)
}

func (s *soak) cutAtAck(t *testing.T) (struck bool) {
	t.Helper()
	b := s.broker()
	trigger := b.CutAfterPub(commits)
	if s.random.IntN(2) == 0 {
		trigger.Stop()
		trigger = b.CutAtAck(faultproxy.PubAck)
	}
	defer trigger.Stop()
	return s.await(t, trigger, time.Second)
}

func (s *soak) await(t *testing.T, trigger *faultproxy.Trigger, patience time.Duration) (struck bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-trigger.Fired():
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *soak) dropAcks(t *testing.T) {
	t.Helper()
	var drops []*faultproxy.Drop
	s.eachBroker(func(b *faultproxy.NATS) { drops = append(drops, b.DropMessages(faultproxy.PubAck)) })
	s.while(t, 200*time.Millisecond, 3*time.Second)
	for _, drop := range drops {
		drop.Stop()
	}
}

// link is that to the database, or one to a broker.
func (s *soak) link() *faultproxy.Proxy {
	if s.random.IntN(2) == 0 {
		s.takeovers.void()
		return s.Database.Proxy
	}
	return s.broker().Proxy
}

func (s *soak) direction() faultproxy.Direction {
	return []faultproxy.Direction{faultproxy.ClientToServer, faultproxy.ServerToClient, faultproxy.Both}[s.random.IntN(3)]
}

func (s *soak) poorLink(t *testing.T) {
	t.Helper()
	p := s.link()
	if s.random.IntN(2) == 0 {
		p.Latency(s.direction(), between(s.random, 5*time.Millisecond, 300*time.Millisecond))
	} else {
		p.Throttle(s.direction(), 5_000+s.random.IntN(100_000))
	}
	s.while(t, time.Second, 4*time.Second)
	p.Heal()
}

func (s *soak) blackhole(t *testing.T) {
	t.Helper()
	p, direction := s.link(), s.direction()
	p.Blackhole(direction, true)
	s.while(t, ttl/4, 2*ttl)
	p.Blackhole(direction, false)
}

// lateBytes holds what is on its way to a broker, while connections made meanwhile are free.
func (s *soak) lateBytes(t *testing.T) {
	t.Helper()
	p := s.link()
	p.HoldPresent(faultproxy.ClientToServer)
	s.while(t, ttl/4, 2*ttl)
	p.Release()
}

func (s *soak) refuse(t *testing.T) {
	t.Helper()
	p := s.link()
	p.Refuse(true)
	p.Cut()
	s.while(t, 200*time.Millisecond, ttl)
	p.Refuse(false)
}

func (s *soak) openTransaction(t *testing.T) {
	t.Helper()
	o := s.open(t)
	last(t.Context(), between(s.random, 200*time.Millisecond, 3*time.Second))
	commits := s.random.IntN(2) == 0
	if commits {
		o.exec(t, "COMMIT")
	} else {
		o.exec(t, "ROLLBACK")
	}
	o.settle(s.Ledger, commits)
}
