package faults_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// The database crashes and is back before any lease has run out: marks that were not flushed are gone, and the owners
// are the same as before.
func TestDatabaseCrashesUnderTheSameOwners(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("short", func(t *testing.T) { crashDatabase(t, 1, 3) })
	for name, nodes := range topologies() { //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			crashDatabase(t, nodes, 10)
		})
	}
}

// stopFlushing freezes the process that writes the log in the background: until the next crash only what somebody waits
// for reaches the disk, as when the power fails.
func (s *stage) stopFlushing(t *testing.T) {
	t.Helper()
	pid := s.Count(t, `SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'`)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatalf("stop the WAL writer: %v", err)
	}
}

func crashDatabase(t *testing.T, nodes, times int) {
	t.Helper()
	random := seeded(t, 3)
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: nodes})
	database, url := ownDatabase(t, localpg.Config{})
	s := begin(t, setting{
		Config: clustertest.Config{NATS: brokers.Server, Replicas: nodes, DatabaseURL: url, Flags: []string{"--lease-ttl=20s"}},
		Load:   clustertest.Load{Outages: true},
	})
	s.load.Stop(t) // its commits would flush the marks
	forgotten := 0
	for range times {
		s.stopFlushing(t)
		s.Backlog(t, 200+random.IntN(800))
		s.WaitDrained(t)
		ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
		if err := database.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		s.restart(t, database)
		forgotten += s.Count(t, `SELECT count(*) FROM outbox`)
		// A claim that finds work notices the crash; without any the sweep would do it, some time later.
		s.Backlog(t, 2000)
	}
	t.Logf("the database had forgotten %d marks", forgotten)
	if forgotten == 0 {
		t.Error("nothing was forgotten: the test proves nothing")
	}
	s.WaitDrained(t)
	s.Verify(t)
	s.wantNothingFailed(t)
	s.report(t, times)
}

// The database crashes while sessions of producers commit asynchronously, and the process that writes the log in the background
// lags. What they queued is on disk all the same: none of it is forgotten, and the stream holds each once.
func TestDatabaseForgetsNoCommits(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("short", func(t *testing.T) { forgetNoCommits(t, 1, 2) })
	for name, nodes := range topologies() { //nolint:paralleltest // clusters run one at a time
		t.Run(name, func(t *testing.T) {
			slow.Test(t)
			forgetNoCommits(t, nodes, 6)
		})
	}
}

func forgetNoCommits(t *testing.T, nodes, times int) {
	t.Helper()
	random := seeded(t, 4)
	brokers := clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: nodes})
	// Its background writer is slow, and not stopped: it could hold what those need who write the log themselves.
	database, url := ownDatabase(t, localpg.Config{Settings: map[string]string{"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}})
	s := begin(t, setting{
		// Renewals and heartbeats commit synchronously: there should be few.
		Config: clustertest.Config{NATS: brokers.Server, Replicas: nodes, DatabaseURL: url, Flags: []string{"--lease-ttl=30s"}},
		Load:   clustertest.Load{Outages: true, Asynchronous: true, Writers: 8, Every: time.Millisecond},
	})
	for range times {
		last(t.Context(), between(random, 200*time.Millisecond, 2*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
		if err := database.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		s.restart(t, database)
		s.subscriber.WaitReceived(t, 300)
	}
	s.Drain(t)
	s.wantStreamAsTable(t)
	report := s.subscriber.Checker.Report()
	if report.Lost+report.Reordered+report.Duplicates+report.Altered+report.EpochFaults != 0 {
		t.Errorf("the checker found faults: %s", report)
	}
	if n := s.Count(t, `SELECT generation FROM outbox_settings`); n != 0 {
		t.Errorf("the relay believes that the database forgot published events: generation %d", n)
	}
	s.report(t, times)
}

// wantStreamAsTable wants each event of the table in the stream, once, and no other.
func (s *stage) wantStreamAsTable(t *testing.T) {
	t.Helper()
	contents := s.Contents(t)
	t.Log(contents)
	for _, fault := range contents.Faults {
		t.Error(fault)
	}
	rows, err := s.Pool.Query(t.Context(), `SELECT event_id FROM events`)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		t.Fatal(err)
	}
	missing := 0
	for _, id := range ids {
		if contents.Copies[id] == 0 {
			missing++
		}
		delete(contents.Copies, id)
	}
	t.Logf("the table holds %d events", len(ids))
	if missing > 0 || len(contents.Copies) > 0 {
		t.Errorf("%d events of the table are not in the stream; the stream holds %d that are not in the table", missing, len(contents.Copies))
	}
	if len(ids) == 0 {
		t.Error("there are no events: the test proves nothing")
	}
}
