package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// replayed counts, by sequence, what came under a generation of replays.
type replayed struct {
	mu   sync.Mutex
	seen map[int64]int
}

func (r *replayed) note(m ledger.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Generation >= 100 {
		if r.seen == nil {
			r.seen = map[int64]int{}
		}
		r.seen[m.Sequence]++
	}
}

// counts returns how many events came, and how many of them more than once.
func (r *replayed) counts() (events, repeated int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.seen {
		if events++; n > 1 {
			repeated++
		}
	}
	return events, repeated
}

// Without batches everything is replayed beside a load, while operators pause
// partitions, change their number and stop a worker, and the replay is killed: each
// selected event comes once, and the load is as if nothing had been.
func TestAReplayOutlastsWhatOperatorsDo(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{
		Partitions: 8, Resized: true, NoBatches: true, Flags: append(shortTTL(), "--ordering=stream"),
	})
	workers := c.Start(t, 3)
	c.WaitShared(t, workers...)
	var again replayed
	c.Subscribe(t, again.note)
	early := c.Produce(t, clustertest.Load{Streams: 40})
	early.WaitCommitted(t, 2000)
	early.Stop(t)
	c.WaitDrained(t)
	c.Produce(t, clustertest.Load{Streams: 40, Every: 4 * time.Millisecond})
	plan := promise(t, c, "--to-sequence=2000")

	p := clustertest.Launch(t, "replay", c.Environment(), "replay", "--to-sequence=2000", "--yes", "--rate=150", "--json")
	dealt := func(n int64) {
		t.Helper()
		clustertest.Until(t, fmt.Sprintf("%d events are queued", n), func(ctx context.Context) (bool, error) {
			var at int64
			err := c.Pool.QueryRow(ctx, `SELECT coalesce(max(replayed), 0) FROM outbox_replays`).Scan(&at)
			return at >= n, err
		}, p.Stderr)
	}
	dealt(100)
	operate(t, c, "partitions", "pause", "1", "3", "--reason=test")
	dealt(500)
	operate(t, c, "partitions", "resume", "--all")
	operate(t, c, "partitions", "resize", "20", "--yes", "--reason=test")
	c.Repartitioned(20)
	operate(t, c, "partitions", "pause", "1", "3", "--reason=test")
	dealt(700)
	p.Signal(t, syscall.SIGKILL)
	p.Exit(t)
	operate(t, c, "partitions", "resume", "--all")
	workers[0].Signal(t, syscall.SIGTERM)
	workers[0].Exit(t)
	var j replay.Body
	if err := json.Unmarshal([]byte(operate(t, c, "replay", "resume", "1", "--rate=0", "--json")), &j); err != nil {
		t.Fatal(err)
	}
	if j.State != "done" || j.Replayed != plan.Selected || *j.Selected != plan.Selected {
		t.Errorf("the dry run promised %d, the replay says %+v", plan.Selected, j)
	}
	clustertest.Until(t, "all of it is received", func(context.Context) (bool, error) {
		events, _ := again.counts()
		return int64(events) >= plan.Selected, nil
	}, func() string { return fmt.Sprint(again.counts()) })
	if events, repeated := again.counts(); int64(events) != plan.Selected || repeated != 0 {
		t.Errorf("%d events came again, %d of them twice; want %d", events, repeated, plan.Selected)
	}
	c.Verify(t, clustertest.Replays)
}
