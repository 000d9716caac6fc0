package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
)

// A standby that lags behind is promoted: it has forgotten events that are
// published, and gives their sequences to others. Those are published, under a new
// generation, and the workers raise an alarm.
func TestFailoverToALaggingStandby(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	primary := pgtest.Server(t, localpg.Config{})
	if migrate := clustertest.Launch(t, "migrate", []string{"DATABASE_URL=" + primary.URL()}, "migrate", "up", "--partitions=8"); migrate.Exit(t) != exitOK {
		t.Fatalf("migrate up: %s", migrate.Stderr())
	}
	c := clustertest.New(t, clustertest.Config{DatabaseURL: primary.URL(), Partitions: 8, Proxied: true, Flags: shortTTL()})
	workers := c.Start(t, 2)
	c.WaitShared(t, workers...)
	insert(t, primary.URL(), "common", 200)
	c.WaitDrained(t)
	// Marks that the standby lacks would be made again, by publishing again.
	if _, err := c.Pool.Exec(t.Context(), `CHECKPOINT`); err != nil {
		t.Fatal(err)
	}

	if err := primary.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	copied := primary.DataDir() + "-standby" // where the server's user may go
	t.Cleanup(func() { _ = os.RemoveAll(copied) })
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", primary.DataDir(), copied).CombinedOutput(); err != nil {
		t.Fatalf("copy the data directory: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(copied, "standby.signal"), nil, 0o644); err != nil { // the server runs as another user
		t.Fatal(err)
	}
	if err := primary.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Pool.Reset()
	insert(t, primary.URL(), "forgotten", 300)
	c.WaitDrained(t)
	if err := primary.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}

	standby := pgtest.Server(t, localpg.Config{DataDir: copied})
	target, err := url.Parse(standby.URL())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Promote(t, standby.URL())
	insert(t, standby.URL(), "after", 400) // the first 300 take the sequences of the forgotten ones
	c.Database.Retarget(target.Host)
	c.Database.Cut()

	check := pgtest.Pool(t, standby.URL())
	clustertest.Until(t, "the standby's events are delivered", func(ctx context.Context) (bool, error) {
		var left int
		err := check.QueryRow(ctx, `SELECT count(*) FROM outbox`).Scan(&left)
		return left == 0, err
	}, nil)
	var generation, alarms int
	if err := check.QueryRow(t.Context(), `SELECT generation, (SELECT count(*) FROM outbox_audit WHERE action = 'database.regressed')
		FROM outbox_settings`).Scan(&generation, &alarms); err != nil {
		t.Fatal(err)
	}
	if generation != 1 || alarms != 1 {
		t.Errorf("the generation is %d after %d alarms, want 1 after 1", generation, alarms)
	}
	if logs := workers[0].Stderr() + workers[1].Stderr(); !strings.Contains(logs, "THE DATABASE HAS FORGOTTEN PUBLISHED EVENTS") {
		t.Error("no worker raised the alarm")
	}
	wantInStream(t, c, map[string]int{"common": 200, "forgotten": 300, "after": 400})
}

// insert appends events of ten streams whose names begin so.
func insert(t *testing.T, address, prefix string, n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `SELECT outbox_append($1 || '-' || (n % 10), 'thing.done', '{}') FROM generate_series(1, $2::int) AS n`, prefix, n); err != nil {
		t.Fatal(err)
	}
}

// wantInStream wants so many different events of each kind of stream, none twice,
// and the events after the failover under a generation of their own, wherever
// events were forgotten: another partition may have delivered some before anybody
// could notice.
func wantInStream(t *testing.T, c *clustertest.Cluster, want map[string]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	consumer, err := c.NATS.JetStream(t).OrderedConsumer(ctx, natstest.StreamName, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"events.>"}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got, ids := map[string]int{}, map[string]bool{}
	regressed := map[string]bool{} // partitions
	for range info.NumPending {
		m, err := consumer.Next()
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(m.Headers().Get(message.HeaderStream), "-")
		got[kind]++
		id := m.Headers().Get(message.HeaderEventID)
		if ids[id] {
			t.Errorf("event %s is stored twice", id)
		}
		ids[id] = true
		partition, generation := m.Headers().Get(message.HeaderPartition), m.Headers().Get(message.HeaderGeneration)
		regressed[partition] = regressed[partition] || kind == "forgotten"
		switch {
		case generation == "1" && kind == "after", generation == "" && (kind != "after" || !regressed[partition]):
		default:
			t.Errorf("an event of %s in partition %s has generation %q", kind, partition, generation)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the stream holds %v, want %v", got, want)
	}
}
