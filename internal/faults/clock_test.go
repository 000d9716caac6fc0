package faults_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/schema"
)

// PostgreSQL's clock steps under load, as it does where a standby that is behind is promoted, and at each large step a
// worker dies: each step is named, order and count hold, nothing is scheduled that nobody scheduled, and what the dead one
// had is taken after a lease's time of watching.
func TestTheDatabasesClockSteps(t *testing.T) {
	t.Parallel()
	const partitions = 16
	server, clock := pgtest.Movable(t, localpg.Config{})
	migrator, err := schema.New(schema.Config{DatabaseURL: server.URL(), Schema: "public", Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	const free = `SELECT count(*) FROM (SELECT FROM outbox_partitions WHERE lease_owner = $1 HAVING count(*) = 0) AS none`
	c := clustertest.New(t, clustertest.Config{Partitions: partitions, DatabaseURL: server.URL(), Flags: shortTTL()})
	workers := c.Start(t, 3)
	c.WaitShared(t, workers...)
	c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{Writers: 3, Outages: true})
	takeover := func() time.Duration {
		victim := workers[0]
		victim.Signal(t, syscall.SIGKILL)
		<-victim.Ended()
		died := time.Now()
		workers = append(workers[1:], c.Start(t, 1)...)
		c.WaitCount(t, 1, free, victim.ID)
		return time.Since(died)
	}
	usual := takeover() // on this machine, which may be busy
	for _, ahead := range []time.Duration{
		-time.Hour, 0, -time.Minute, 0, -300 * time.Millisecond, 0, -300 * time.Millisecond, 0, -20 * time.Millisecond, 0, time.Hour, 0,
	} {
		load.WaitCommitted(t, 100)
		before := said(workers)
		clock.Move(t, ahead)
		waitNamed(t, workers, before)
		if ahead >= -time.Second && ahead != time.Hour {
			continue
		}
		if took := takeover(); took > usual+ttl+2*time.Second {
			t.Errorf("%v: what a dead worker had was taken after %v, and after %v where the clock does not step", ahead, took, usual)
		}
	}
	load.WaitCommitted(t, 100)

	// A standby that has all that was committed, and whose clock is behind. A worker dies with the former primary.
	victim, before := workers[0], said(workers)
	if err := server.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	victim.Signal(t, syscall.SIGKILL)
	<-victim.Ended()
	clock.Move(t, -time.Minute)
	pgtest.PromoteKilled(t, server)
	waitNamed(t, workers, before)
	c.WaitCount(t, 1, free, victim.ID)
	load.WaitCommitted(t, 100)
	if n := c.Count(t, `SELECT count(*) FROM outbox_messages WHERE state = 'scheduled'`); n > 0 {
		t.Errorf("%d events are scheduled that nobody scheduled", n)
	}
	load.Stop(t)
	c.Verify(t)
}

// said counts the steps of the clock that workers named.
func said(workers []*clustertest.Worker) (times int) {
	for _, w := range workers {
		times += strings.Count(w.Stderr(), "the database's clock has stepped")
	}
	return times
}

// waitNamed waits until another step is named. Small ones are seen by those whose looks are answered quickly.
func waitNamed(t *testing.T, workers []*clustertest.Worker, before int) {
	t.Helper()
	took := clustertest.Until(t, "the step of the clock is named", func(context.Context) (bool, error) { return said(workers) > before, nil }, nil)
	if took > 20*time.Second { // machines under test are slow
		t.Errorf("the step of the clock was named after %s", took)
	}
}
