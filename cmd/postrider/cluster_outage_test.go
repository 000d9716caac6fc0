package main

import (
	"context"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// While the broker is away nothing is counted against any event, and afterwards delivery goes on by itself.
func TestBrokerOutage(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Flags: shortTTL()})
	broker := c.NATS.Cluster(t)
	workers := c.Start(t, 3)
	c.WaitShared(t, workers...)
	s := c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{})
	s.WaitReceived(t, 300)

	if err := broker.StopNode(0); err != nil {
		t.Fatal(err)
	}
	for _, w := range workers { // several rounds of trying
		w.WaitLog(t, "failures=4")
	}
	load.WaitCommitted(t, 500)
	if n := c.Count(t, `SELECT count(*) FROM outbox`); n < 500 {
		t.Errorf("the backlog is %d, want 500 or more", n)
	}
	wantUntouched(t, c)
	wantShares(t, c, workers, 22, 21, 21) // the database is there, so the leases are

	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	start := time.Now()
	if err := broker.RestartNode(ctx, 0); err != nil {
		t.Fatal(err)
	}
	s.WaitReceived(t, 500)
	t.Logf("delivery went on %s after the restart began", time.Since(start))
	c.Verify(t)
	wantNoFailures(t, workers)
}

// The same for the database: asked to stop, and killed.
func TestDatabaseOutage(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for name, stop := range map[string]func(*localpg.Server, context.Context) error{
		"restart": (*localpg.Server).Restart,
		"kill":    (*localpg.Server).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			server := pgtest.Server(t, localpg.Config{})
			environment := []string{"DATABASE_URL=" + server.URL()}
			if migrate := clustertest.Launch(t, "migrate", environment, "migrate", "up"); migrate.Exit(t) != exitOK {
				t.Fatalf("migrate up: %s", migrate.Stderr())
			}
			c := clustertest.New(t, clustertest.Config{DatabaseURL: server.URL(), Flags: shortTTL()})
			workers := c.Start(t, 3)
			c.WaitShared(t, workers...)
			s := c.Subscribe(t, nil)
			c.Produce(t, clustertest.Load{Outages: true, Every: 2 * time.Millisecond})
			s.WaitReceived(t, 500)

			ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
			defer cancel()
			if err := stop(server, ctx); err != nil {
				t.Fatal(err)
			}
			if name == "kill" {
				for _, w := range workers {
					w.WaitTick(t, "its leases have run out", func(k clustertest.Tick) bool { return len(k.Owned) == 0 })
					if lost := w.Sum(t).Lost; lost < 21 {
						t.Errorf("it counts %d lost leases", lost)
					}
				}
				if err := server.Restart(ctx); err != nil {
					t.Fatal(err)
				}
			}
			start := time.Now()
			c.Pool.Reset() // its connections are dead
			s.WaitReceived(t, 500)
			t.Logf("delivery went on %s after the database was back", time.Since(start))
			c.WaitShared(t, workers...)
			wantShares(t, c, workers, 22, 21, 21)
			wantUntouched(t, c)
			c.Verify(t)
			wantNoFailures(t, workers)
		})
	}
}

// wantUntouched wants no row that carries a trace of the outage.
func wantUntouched(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	if n := c.Count(t, `SELECT count(*) FROM outbox WHERE attempts > 0 OR dead_at IS NOT NULL OR last_error IS NOT NULL OR parked`); n != 0 {
		t.Errorf("%d rows were blamed for the outage", n)
	}
}

func wantNoFailures(t *testing.T, workers []*clustertest.Worker) {
	t.Helper()
	for _, w := range workers {
		select {
		case <-w.Ended():
			t.Errorf("worker %s did not survive the outage", w.ID)
		default:
		}
		if sum := w.Sum(t); sum.Failed != 0 || sum.Dead != 0 {
			t.Errorf("worker %s counts %d failed and %d dead messages", w.ID, sum.Failed, sum.Dead)
		}
	}
}
