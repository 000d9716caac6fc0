package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// rateSpan is over how long rates are compared.
const rateSpan = 5 * time.Second

// While the broker or the database is away no event is blamed, and afterwards delivery goes on at full speed.
func TestOutages(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for _, kind := range []string{"broker", "database"} { //nolint:paralleltest // clusters run one at a time
		t.Run(kind, func(t *testing.T) {
			t.Run("5s", func(t *testing.T) { outage(t, kind, 5*time.Second) }) //nolint:paralleltest // measures time
			t.Run("30s", func(t *testing.T) {                                  //nolint:paralleltest // measures time
				slow.Test(t)
				outage(t, kind, 30*time.Second)
			})
		})
	}
}

func outage(t *testing.T, kind string, lasts time.Duration) {
	t.Helper()
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{})
	config := clustertest.Config{NATS: brokers.Server, Flags: shortTTL()}
	var database *localpg.Server
	if kind == "database" {
		database, config.DatabaseURL = ownDatabase(t, localpg.Config{})
	}
	s := begin(t, setting{Config: config, Load: clustertest.Load{Outages: database != nil}})
	before := s.rate(t)

	ctx, cancel := context.WithTimeout(t.Context(), lasts+2*clustertest.Patience)
	defer cancel()
	if database == nil {
		brokers.Kill(t, 0)
		last(ctx, lasts)
		s.wantUntouched(t)
		brokers.Restart(t, 0)
	} else {
		if err := database.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		last(ctx, lasts)
		s.restart(t, database)
	}
	after := s.rate(t)
	t.Logf("%.0f events/s before the outage of %s, %.0f in the %s after it", before, lasts, after, rateSpan)
	if after < before/2 {
		t.Errorf("%.0f events/s in the %s after the outage, %.0f before it", after, rateSpan, before)
	}
	s.wantUntouched(t)
	s.Verify(t)
	s.wantNothingFailed(t)
	s.report(t, 1)
}

// rate is how many events a second arrive from now on, over rateSpan.
func (s *stage) rate(t *testing.T) float64 {
	t.Helper()
	start, received := time.Now(), s.subscriber.Messages()
	last(t.Context(), rateSpan)
	return float64(s.subscriber.Messages()-received) / time.Since(start).Seconds()
}

// wantNothingFailed wants workers that all live and count no failure.
func (s *stage) wantNothingFailed(t *testing.T) {
	t.Helper()
	for _, w := range s.workers {
		select {
		case <-w.Ended():
			t.Errorf("worker %s did not survive", w.ID)
		default:
		}
	}
	if sum := s.counts(t); sum.Failed != 0 || sum.Dead != 0 {
		t.Errorf("the workers count %d failed and %d dead messages", sum.Failed, sum.Dead)
	}
}

// ownDatabase is a migrated database on a server that may be killed.
func ownDatabase(t *testing.T, config localpg.Config) (*localpg.Server, string) {
	t.Helper()
	server := pgtest.Server(t, config)
	migrate := clustertest.Launch(t, "migrate", []string{"DATABASE_URL=" + server.URL()}, "migrate", "up")
	if migrate.Exit(t) != 0 {
		t.Fatalf("migrate up: %s", migrate.Stderr())
	}
	return server, server.URL()
}

// restart brings the database back.
func (s *stage) restart(t *testing.T, database *localpg.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	if err := database.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	s.Pool.Reset() // its connections are dead
}
