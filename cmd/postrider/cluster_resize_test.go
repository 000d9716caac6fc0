package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// The number of partitions changes up by the command and down by a worker's monitor, under load, in the same words: nothing is lost or
// doubled, every stream keeps its order, and producers put new events where the
// moved ones went.
func TestResizeUnderLoad(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 16, Resized: true, Flags: append(shortTTL(), "--ordering=stream", "--http-addr=127.0.0.1:0")})
	workers := c.Start(t, 3)
	c.WaitShared(t, workers...)
	s := c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{Every: 4 * time.Millisecond})
	s.WaitReceived(t, 300)
	for _, count := range []int{40, 7} {
		var done string
		if count > c.Partitions() {
			resize := clustertest.Launch(t, "resize", c.Environment(), "partitions", "resize", fmt.Sprint(count), "--yes", "--reason=test", "--json")
			if code := resize.Exit(t); code != exitOK {
				t.Fatalf("partitions resize %d: %s", count, resize.Stderr())
			}
			done = resize.Stdout()
		} else {
			var status int
			if status, done = ask(t, workers[1], http.MethodPost, "/api/v1/partitions/resize", fmt.Sprintf(`{"count": %d, "reason": "test"}`, count)); status != http.StatusOK {
				t.Fatalf("resize to %d by a worker's monitor: %s", count, done)
			}
		}
		t.Log(done)
		said := read[map[string]any](t, done)
		moved, counted := said["moved"].(float64)
		if delete(said, "moved"); !counted || moved < 0 || fmt.Sprint(said) != fmt.Sprintf("map[dry_run:false from:%d to:%d]", c.Partitions(), count) {
			t.Errorf("of %d partitions made %d it says %s", c.Partitions(), count, done)
		}
		c.Repartitioned(count)
		c.WaitShared(t, workers...)
		if n := c.Count(t, `SELECT count(*) FROM outbox_partitions`); n != count {
			t.Errorf("%d partition rows, want %d", n, count)
		}
		s.WaitReceived(t, 500)
	}
	load.Stop(t)
	if n := c.Count(t, `SELECT count(*) FROM outbox WHERE partition_key <> outbox_partition(stream_id, 7)`); n != 0 {
		t.Errorf("%d rows lie in another partition than their stream's", n)
	}
	if n := c.Count(t, `SELECT count(*) FROM outbox_audit WHERE action = 'partitions.resize'`); n != 2 {
		t.Errorf("%d resizes are in the audit log, want 2", n)
	}
	c.Verify(t)
}

// A resize that is killed amid its work holds nobody up: its session is gone, so its
// freeze and its leases are, too. The next one does not wait either.
func TestAKilledResizeHoldsNobodyUp(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 8, Resized: true, Flags: append(shortTTL(), "--ordering=stream")})
	workers := c.Start(t, 2)
	c.WaitShared(t, workers...)
	for _, next := range []string{"the workers", "another resize"} {
		producer, err := c.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer producer.Rollback(context.WithoutCancel(t.Context()))
		if _, err := producer.Exec(t.Context(), `SELECT outbox_append('held', 'thing.done', '1')`); err != nil {
			t.Fatal(err)
		}
		resize := clustertest.Launch(t, "resize", c.Environment(), "partitions", "resize", "5", "--yes", "--reason=test")
		c.WaitCount(t, 1, `SELECT count(*) FROM pg_locks WHERE mode = 'ExclusiveLock' AND relation IN ('outbox'::regclass, 'outbox_ready'::regclass) AND NOT granted`)
		resize.Signal(t, syscall.SIGKILL)
		resize.Exit(t)
		if err := producer.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next != "the workers" {
			if again := clustertest.Launch(t, "again", c.Environment(), "partitions", "resize", "5", "--yes", "--reason=test", "--timeout=20s"); again.Exit(t) != exitOK {
				t.Errorf("the next resize: %s", again.Stderr())
			}
			c.Repartitioned(5)
		}
		if took := c.WaitShared(t, workers...); took > 20*time.Second {
			t.Errorf("%s took over after %s", next, took)
		}
	}
}

// What it would do is said before anything stops; what it must not do is refused, with
// the partitions and the cure.
func TestResizeTells(t *testing.T) {
	t.Parallel()
	address, on := deadDatabase(t)
	pending := on("partitions", "resize", "1", "--dry-run")
	var moved int
	if err := pgtest.Pool(t, address).QueryRow(t.Context(), `SELECT count(*) FROM outbox WHERE partition_key <> 0`).Scan(&moved); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := call(t, pending...); code != exitOK || stdout != "would make 1 partition of 8; "+counted(moved, "pending row")+" would move\n" || moved == 0 {
		t.Errorf("dry run: status %d, %q %s, want %d rows", code, stdout, stderr, moved)
	}
	for _, refused := range []struct {
		args []string
		says []string
	}{
		{nil, []string{"say --yes", "--reason"}},
		{[]string{"--yes"}, []string{"--reason is required"}},
		{[]string{"--reason=test"}, []string{"say --yes"}},
	} {
		code, _, stderr := call(t, on(append([]string{"partitions", "resize", "4"}, refused.args...)...)...)
		for _, text := range refused.says {
			if code == exitOK || !strings.Contains(stderr, text) {
				t.Errorf("%v: status %d, %q lacks %q", refused.args, code, stderr, text)
			}
		}
	}
	if code, _, stderr := call(t, on("partitions", "pause", "3", "5")...); code != exitOK {
		t.Fatal(stderr)
	}
	for _, way := range [][]string{{"--dry-run"}, {"--yes", "--reason=test"}} {
		code, _, stderr := call(t, on(append([]string{"partitions", "resize", "4"}, way...)...)...)
		for _, text := range []string{"2 of 8 (3 5)", "postrider partitions resume 3 5"} {
			if code == exitOK || !strings.Contains(stderr, text) {
				t.Errorf("%v with paused partitions: status %d, %q lacks %q", way, code, stderr, text)
			}
		}
	}
}

// After a failover or a restore the stream knows higher epochs than the database. A resize that comes before any worker has
// taken its partitions learns them, and is not refused.
func TestResizeOfADatabaseOlderThanItsStream(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 5, Resized: true})
	operate(t, c, "partitions", "resize", "4", "--yes", "--reason=test")
	if _, err := c.Pool.Exec(t.Context(), `UPDATE outbox_partitions SET lease_epoch = 500 + partition_key`); err != nil {
		t.Fatal(err)
	}
	c.Backlog(t, 60)
	once := clustertest.Launch(t, "run", c.Environment(), "run", "--no-leasing", "--once", "--http-addr=off")
	if once.Exit(t) != exitOK {
		t.Fatalf("run --once: %s", once.Stderr())
	}
	if _, err := c.Pool.Exec(t.Context(), `UPDATE outbox_partitions SET lease_epoch = 3`); err != nil {
		t.Fatal(err)
	}
	resize := clustertest.Launch(t, "resize", c.Environment(), "partitions", "resize", "7", "--yes", "--reason=test")
	if resize.Exit(t) != exitOK {
		t.Errorf("partitions resize: %s", resize.Stderr())
	}
}
