package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// everything is a digest of every row of every table, with the transaction that
// wrote it and the place where it lies.
func everything(t *testing.T, c *clustertest.Cluster) map[string]string {
	t.Helper()
	rows, err := c.Pool.Query(t.Context(), `SELECT relname FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND (relname = 'events' OR relname LIKE 'outbox%') ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, name := range tables {
		var digest string
		err := c.Pool.QueryRow(t.Context(), `SELECT count(*) || ' rows, ' || coalesce(md5(string_agg(r::text || r.xmin || r.ctid, ',' ORDER BY r.ctid)), '')
			FROM `+pgx.Identifier{name}.Sanitize()+` AS r`).Scan(&digest)
		if err != nil {
			t.Fatal(err)
		}
		digests[name] = digest
	}
	return digests
}

// rehearsedBy reads the sequences that a shadow's log says it would publish.
func rehearsedBy(t *testing.T, log string) []int64 {
	t.Helper()
	var sequences []int64
	for line := range strings.Lines(log) {
		var entry struct {
			Message  string `json:"msg"`
			Sequence int64  `json:"sequence"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("the log holds %q: %v", line, err)
		}
		if entry.Message == "would publish" {
			sequences = append(sequences, entry.Sequence)
		}
	}
	return sequences
}

// A shadow claims what a worker of the same settings publishes afterwards, and
// leaves every row as it was: also what it may not touch, such as failed and dead
// ones, and those of a message that the broker would never take.
func TestAShadowClaimsWhatAWorkerWould(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for _, flags := range [][]string{
		{"--ordering=partition"},
		{"--ordering=stream", "--behind=none"},
	} {
		c := clustertest.New(t, clustertest.Config{Partitions: 8, Flags: flags})
		c.Backlog(t, 1500)
		for _, size := range []int{1, tooLarge, 1} {
			appendEvent(t, c, "poison", size)
		}
		if _, err := c.Pool.Exec(t.Context(), `UPDATE outbox SET parked = true, attempts = 8, dead_at = now() WHERE global_sequence IN (7, 19);
			UPDATE outbox SET parked = true, attempts = 1, available_at = now() WHERE global_sequence IN (23, 31)`); err != nil {
			t.Fatal(err)
		}
		before := everything(t, c)
		args := append([]string{"run", "--shadow", "--once", "--http-addr=off", "--log-level=debug", "--log-format=json", "--batch-size=1"}, flags...)
		p := clustertest.Launch(t, "shadow", c.Environment(), args...)
		if code := p.Exit(t); code != exitOK {
			t.Fatalf("the shadow ended with %d: %s", code, p.Stderr())
		}
		for name, digest := range everything(t, c) {
			if before[name] != digest {
				t.Errorf("%v: table %s held %s and holds %s", flags, name, before[name], digest)
			}
		}
		would := rehearsedBy(t, p.Stderr())
		if want := fmt.Sprintf("would have published %d, skipped 0, failed 1\n", len(would)); p.Stdout() != want {
			t.Errorf("%v: it says %q, want %q", flags, p.Stdout(), want)
		}
		var mu sync.Mutex
		var did []int64
		c.Subscribe(t, func(m ledger.Message) {
			mu.Lock()
			defer mu.Unlock()
			did = append(did, m.Sequence)
		})
		c.Start(t, 1)
		c.WaitCount(t, 3, `SELECT count(*) FROM outbox_messages WHERE state = 'dead'`)
		// What waits behind one that failed before is pending when that one was tried again. What had failed behind a dead
		// message of its stream is not tried again, unless nothing waits.
		c.WaitCount(t, 0, `SELECT -count(*) FROM outbox_messages AS m WHERE state = 'pending' OR state = 'failed' AND ($1 OR NOT EXISTS (
			SELECT FROM outbox_messages AS d WHERE d.state = 'dead' AND d.stream_id = m.stream_id AND d.global_sequence < m.global_sequence))`,
			slices.Contains(flags, "--behind=none"))
		published := c.Count(t, `SELECT coalesce(sum(message_count), 0)::int FROM outbox_deliveries`)
		clustertest.Until(t, "all of it is received", func(context.Context) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			return len(did) >= published, nil
		}, nil)
		mu.Lock()
		slices.Sort(would)
		slices.Sort(did)
		if !slices.Equal(would, did) {
			t.Errorf("%v: the shadow claimed %d events, the worker published %d", flags, len(would), len(did))
		}
		mu.Unlock()
	}
}

// Beside a live cluster a shadow takes no part: no member, no lease, no write; and
// it sees what goes on.
func TestAShadowDisturbsNobody(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 16})
	c.Subscribe(t, nil)
	shadow := clustertest.Launch(t, "shadow", c.Environment(), "run", "--shadow", "--json", "--http-addr=off")
	workers := c.Start(t, 2)
	load := c.Produce(t, clustertest.Load{})
	load.WaitCommitted(t, 3000)
	c.WaitHeld(t, workers...)
	if n := c.Count(t, `SELECT count(*) FROM outbox_workers`); n != 2 {
		t.Errorf("%d workers are registered, want 2", n)
	}
	if n := c.Count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'postrider shadow'`); n == 0 {
		t.Error("the shadow is not connected")
	}
	shadow.Signal(t, syscall.SIGTERM)
	if code := shadow.Exit(t); code != exitOK {
		t.Errorf("the shadow ended with %d", code)
	}
	var saw int64
	for line := range strings.Lines(shadow.Stdout()) {
		var tick shadowTick
		if err := json.Unmarshal([]byte(line), &tick); err != nil || !tick.Shadow {
			t.Fatalf("it wrote %q: %v", line, err)
		}
		saw += tick.WouldPublish
	}
	t.Logf("the shadow would have published %d", saw)
	if saw == 0 {
		t.Error("the shadow saw nothing")
	}
	c.Verify(t)
}
