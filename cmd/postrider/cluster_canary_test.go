package main

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

var canariesRead = regexp.MustCompile(`(?m)^outbox_canary_seconds_count\{stage="read"\} (\d+)$`)

// readBy is how many canaries a worker has read.
func readBy(t *testing.T, w *clustertest.Worker) int {
	t.Helper()
	_, text := ask(t, w, http.MethodGet, "/metrics", "")
	found := canariesRead.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitReadBy waits until some of the workers have read further canaries.
func waitReadBy(t *testing.T, c *clustertest.Cluster, when string, workers ...*clustertest.Worker) {
	t.Helper()
	sum := func() (n int) {
		for _, w := range workers {
			n += readBy(t, w)
		}
		return n
	}
	before := sum()
	clustertest.Until(t, "canaries are read "+when, func(context.Context) (bool, error) { return sum() >= before+2, nil },
		func() string { return operate(t, c, "status") })
}

// knownCanaries puts what workers appended among what producers did.
func knownCanaries(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	rows, err := c.Pool.Query(t.Context(), `SELECT event_id, stream_id, stream_version FROM events WHERE topic = 'postrider'`)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Entry, error) {
		e := ledger.Entry{BodyHash: ledger.HashBody([]byte("{}"))}
		return e, row.Scan(&e.EventID, &e.Stream, &e.Version) // without the sequence, and so the partition: a resize changes it
	})
	if err != nil || len(entries) < 10 {
		t.Fatalf("%d canaries were appended: %v", len(entries), err)
	}
	c.Ledger.Committed(entries, time.Now())
}

// Canaries meet what operators do, under load: a pause, a drain, a resize, a kill. They are overdue while they must be, come through afterwards,
// and are events like others: none is lost, doubled, dead or out of order.
func TestCanariesMeetOperators(t *testing.T) {
	t.Parallel()
	for name, noBatches := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canariesMeetOperators(t, noBatches)
		})
	}
}

func canariesMeetOperators(t *testing.T, noBatches bool) {
	t.Helper()
	c := clustertest.New(t, clustertest.Config{Partitions: 8, Resized: true, NoBatches: noBatches, Flags: append(shortTTL(), "--ordering=stream")})
	s := c.Subscribe(t, nil)
	workers := c.Start(t, 2, "--canary=1s", "--http-addr=127.0.0.1:0")
	c.WaitShared(t, workers...)
	load := c.Produce(t, clustertest.Load{Every: 10 * time.Millisecond})
	waitReadBy(t, c, "at first", workers...)

	operate(t, c, "partitions", "pause", "--all", "--reason=test")
	told := func() bool {
		text := operate(t, c, "status")
		return strings.Contains(text, "\ncanary overdue: event ") && strings.Contains(text, "paused by an operator")
	}
	clustertest.Until(t, "the status says that the canary is overdue, and why", func(context.Context) (bool, error) { return told(), nil }, nil)
	operate(t, c, "partitions", "resume", "--all", "--reason=test")
	waitReadBy(t, c, "after the pause", workers...)

	owners, err := c.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sender, other := workers[0], workers[1]
	if owners[0] == other.ID {
		sender, other = other, sender
	}
	operate(t, c, "workers", "drain", sender.ID.String(), "--reason=test")
	waitReadBy(t, c, "by the other worker", other)
	operate(t, c, "workers", "undrain", sender.ID.String(), "--reason=test")

	operate(t, c, "partitions", "resize", "5", "--yes", "--reason=test")
	c.Repartitioned(5)
	c.WaitShared(t, workers...)
	waitReadBy(t, c, "after the resize", workers...)

	sender.Signal(t, syscall.SIGKILL)
	waitReadBy(t, c, "after a kill", other)

	other.Signal(t, syscall.SIGTERM)
	other.Exit(t)
	c.Start(t, 1)
	load.Stop(t)
	s.WaitReceived(t, 1)
	knownCanaries(t, c)
	c.Verify(t)
	if n := c.Count(t, `SELECT count(*) FROM outbox_messages WHERE state IN ('dead', 'discarded', 'failed')`); n != 0 {
		t.Errorf("%d canaries failed", n)
	}
}
