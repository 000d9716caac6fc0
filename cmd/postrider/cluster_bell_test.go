package main

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

const (
	askForLogBell = `CREATE PUBLICATION postrider_public FOR TABLE outbox_ready WITH (publish = 'insert')`
	bellSession   = `SELECT coalesce(max(active_pid), 0) FROM pg_replication_slots WHERE confirmed_flush_lsn IS NOT NULL`
)

// deliver appends events one by one as psql does, and waits for each. Polls a minute apart would take many times as long.
func deliver(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for range 20 {
		if _, err := c.Pool.Exec(ctx, `SELECT outbox_append('s', 't', '1')`); err != nil {
			t.Fatal(err)
		}
		for left := 1; left > 0; {
			if err := c.Pool.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&left); err != nil {
				t.Fatalf("%d events wait: %v", left, err)
			}
		}
	}
}

// The log rings for producers that do not: by one worker for all, by another one when that is gone, and nothing is left behind.
func TestTheLogRings(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	server := pgtest.Server(t, localpg.Config{Settings: map[string]string{"wal_level": "logical"}})
	migrator, err := schema.New(schema.Config{DatabaseURL: server.URL(), Schema: "public", Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := clustertest.New(t, clustertest.Config{DatabaseURL: server.URL(), Partitions: 8, Flags: []string{"--interval=1m"}})
	if _, err := c.Pool.Exec(t.Context(), askForLogBell); err != nil {
		t.Fatal(err)
	}
	workers := c.Start(t, 2)
	c.WaitShared(t, workers...)
	c.WaitCount(t, 1, bellSession)
	deliver(t, c)

	first := c.Count(t, bellSession)
	c.Count(t, `SELECT pg_terminate_backend($1)::int`, first)
	clustertest.Until(t, "a session took over", func(ctx context.Context) (bool, error) {
		var now int
		err := c.Pool.QueryRow(ctx, bellSession).Scan(&now)
		return now != 0 && now != first, err
	}, nil)
	deliver(t, c)

	for _, w := range workers {
		w.Signal(t, syscall.SIGKILL)
	}
	clustertest.Until(t, "no slot is left", func(ctx context.Context) (bool, error) {
		var slots int
		err := c.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_replication_slots`).Scan(&slots)
		return slots == 0, err
	}, nil)
}

// Where the log cannot ring it is said why, and polls deliver.
func TestPollsDeliverWithoutTheLog(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 8})
	on := []string{"--database-url=" + c.DatabaseURL, "--nats-url=" + c.NATS.URL()}
	if f := diagnose(t, exitOK, on...)["doorbell"]; f.Level != levelOK || !strings.Contains(f.Detail, "producers alone ring") {
		t.Errorf("doctor, of an outbox that does not ask: %+v", f)
	}
	if _, err := c.Pool.Exec(t.Context(), askForLogBell); err != nil {
		t.Fatal(err)
	}
	if f := diagnose(t, exitOK, on...)["doorbell"]; f.Level != levelWarning || !strings.Contains(f.Detail, "wal_level") {
		t.Errorf("doctor, of a log that cannot ring: %+v", f)
	}
	w := c.Start(t, 1)[0]
	w.WaitLog(t, "wal_level")
	deliver(t, c)
}
