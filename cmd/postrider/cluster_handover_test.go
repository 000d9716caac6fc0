package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// plannedHandover is what a planned one takes at most where processors are free, and leaseWait what no handover takes that
// does not wait for the end of a lease (10 s), however busy the machine is.
const (
	plannedHandover = time.Second
	leaseWait       = 5 * time.Second
)

// handovers are how long planned ones took.
type handovers []time.Duration

// verify wants half of them done in less than a second, as the machine may be busy with something else for a moment, and
// none to wait for the end of a lease.
func (h handovers) verify(t *testing.T) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(h))
	if median := sorted[len(sorted)/2]; median >= plannedHandover {
		t.Errorf("half of the handovers took %s, want less than %s: %s", median, plannedHandover, h)
	}
	if longest := slices.Max(h); longest >= leaseWait {
		t.Errorf("a handover took %s, want less than %s", longest, leaseWait)
	}
	t.Logf("%d handovers took %s", len(h), h)
}

// A worker that is asked to end hands its partitions over in less than a second, with the default TTL and under load.
func TestSIGTERMHandsOver(t *testing.T) { //nolint:paralleltest // measures time
	c := clustertest.New(t, clustertest.Config{})
	workers := c.Start(t, 3)
	c.WaitShared(t, workers...)
	c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{})
	var took handovers
	for range 3 { // each of the first three leaves once, as in a rolling restart
		load.WaitCommitted(t, 300)
		leaving := workers[0]
		workers = workers[1:]
		leaving.Signal(t, syscall.SIGTERM)
		took = append(took, c.WaitHeld(t, workers...))
		wantGone(t, c, leaving)
		workers = append(workers, c.Start(t, 1)...)
		t.Logf("a new one has its share after %s", c.WaitShared(t, workers...))
	}
	took.verify(t)
	report := c.Verify(t)
	// One that waited for the end of a lease took the TTL, 10 s.
	if report.LatencyMax > leaseWait.Seconds() {
		t.Errorf("an event took %.3f s", report.LatencyMax)
	}
}

// wantGone wants an orderly end that leaves nothing behind.
func wantGone(t *testing.T, c *clustertest.Cluster, w *clustertest.Worker) {
	t.Helper()
	if code := w.Exit(t); code != exitOK {
		t.Errorf("the worker ended with %d", code)
	}
	if n := c.Count(t, `SELECT count(*) FROM outbox_workers WHERE worker_id = $1`, w.ID); n != 0 {
		t.Error("its row is still in outbox_workers")
	}
	if n := c.Count(t, `SELECT count(*) FROM outbox_partitions WHERE lease_owner = $1`, w.ID); n != 0 {
		t.Errorf("it left %d leases", n)
	}
}

// Workers come and go while shares are still moving.
func TestRollingRestarts(t *testing.T) { //nolint:paralleltest // measures time
	slow.Test(t)
	c := clustertest.New(t, clustertest.Config{})
	workers := c.Start(t, 3)
	c.WaitShared(t, workers...)
	c.Subscribe(t, nil)
	c.Produce(t, clustertest.Load{})
	var took handovers
	for n := range 20 {
		// The one that starts now joins while the one that leaves hands over; every other time the newest one leaves,
		// which has not received all of its share.
		added := c.Start(t, 1)[0]
		at := 0
		if n%2 == 1 {
			at = len(workers) - 1
		}
		leaving := workers[at]
		workers = append(slices.Delete(workers, at, at+1), added)
		leaving.Signal(t, syscall.SIGTERM)
		took = append(took, c.WaitHeld(t, workers...))
		wantGone(t, c, leaving)
	}
	took.verify(t)
	c.WaitShared(t, workers...)
	c.Verify(t)
}

// A worker that is told to end while it is still taking its share leaves nothing that others would have to wait for.
func TestSIGTERMWhileJoining(t *testing.T) { //nolint:paralleltest // measures time
	slow.Test(t)
	c := clustertest.New(t, clustertest.Config{})
	workers := c.Start(t, 2)
	c.WaitShared(t, workers...)
	c.Subscribe(t, nil)
	c.Produce(t, clustertest.Load{})
	var took handovers
	for n := range 30 {
		joining := c.Start(t, 1)[0] // its row is there, its leases come about now
		if n%3 > 0 {
			c.WaitCount(t, 1+5*(n%3), `SELECT count(*) FROM outbox_partitions WHERE lease_owner = $1`, joining.ID)
		}
		joining.Signal(t, syscall.SIGTERM)
		took = append(took, c.WaitHeld(t, workers...))
		wantGone(t, c, joining)
	}
	took.verify(t)
	c.Verify(t)
}

// A worker that is killed is followed within the TTL and two seconds.
func TestSIGKILLTakeover(t *testing.T) { //nolint:paralleltest // measures time
	t.Run("TTL 3s", func(t *testing.T) { //nolint:paralleltest // measures time
		killOne(t, 3*time.Second, shortTTL()...)
	})
	t.Run("default TTL", func(t *testing.T) { //nolint:paralleltest // measures time
		slow.Test(t)
		killOne(t, 10*time.Second)
	})
}

func killOne(t *testing.T, ttl time.Duration, flags ...string) {
	t.Helper()
	c := clustertest.New(t, clustertest.Config{Flags: flags})
	workers := c.Start(t, 3)
	c.WaitShared(t, workers...)
	c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{Every: 2 * time.Millisecond})
	load.WaitCommitted(t, 500)
	const until = `SELECT (extract(epoch FROM min(lease_until)) * 1000)::bigint FROM outbox_partitions WHERE lease_owner = $1`
	// From the acquisition alone one would not see how far a renewal reaches.
	c.WaitCount(t, 1+c.Count(t, until, workers[1].ID), until, workers[1].ID)

	workers[1].Signal(t, syscall.SIGKILL)
	rest := []*clustertest.Worker{workers[0], workers[2]}
	took := c.WaitHeld(t, rest...)
	t.Logf("takeover with a TTL of %s took %s", ttl, took)
	if most := ttl + 2*time.Second; took >= most {
		t.Errorf("the takeover took %s, want less than %s", took, most)
	}
	c.WaitShared(t, rest...)
	wantShares(t, c, rest, 32, 32)
	load.WaitCommitted(t, 300)
	c.Verify(t)
}

// ways are how messages are stored: whether the stream takes no batches.
var ways = map[string]bool{"in batches": false, "one by one": true}

// A worker that is stopped for longer than its leases last, in the middle of its work, wakes up as one that owns nothing.
func TestSIGSTOPPastTheTTL(t *testing.T) { //nolint:paralleltest // measures time
	eachWay(t, stopPastTheTTL)
}

// eachWay runs a test with batches and without, one after the other.
func eachWay(t *testing.T, test func(t *testing.T, noBatches bool)) {
	t.Helper()
	for name, noBatches := range ways {
		t.Run(name, func(t *testing.T) { test(t, noBatches) })
	}
}

func stopPastTheTTL(t *testing.T, noBatches bool) {
	t.Helper()
	c := clustertest.New(t, clustertest.Config{Flags: shortTTL(), NoBatches: noBatches})
	c.Backlog(t, 20_000)
	s := c.Subscribe(t, nil)
	workers := c.Start(t, 3)
	c.WaitShared(t, workers...)
	c.Produce(t, clustertest.Load{})
	frozen := workers[0]
	freezeBeforeMark(t, c, s, frozen)
	before := epochs(t, c, frozen.ID)
	if len(before) < 21 {
		t.Fatalf("the worker holds %d partitions", len(before))
	}
	left := c.Count(t, `SELECT count(*) FROM outbox WHERE partition_key = ANY ($1)`, slices.Collect(maps.Keys(before)))
	t.Logf("it stopped with %d rows before it", left)
	t.Logf("the others hold everything after %s", c.WaitHeld(t, workers[1:]...))
	s.WaitReceived(t, 1000) // so they have gone past what the frozen one has in hand
	frozen.Signal(t, syscall.SIGCONT)
	t.Logf("it has its share again after %s", c.WaitShared(t, workers...))
	wantShares(t, c, workers, 22, 21, 21)
	frozen.WaitTick(t, "it owns what it should", func(k clustertest.Tick) bool {
		return len(k.Owned) >= 21 && slices.Equal(k.Owned, k.Desired)
	})
	if lost := frozen.Sum(t).Lost; lost < int64(len(before)) {
		t.Errorf("it counts %d lost leases, want %d or more", lost, len(before))
	}
	for p, epoch := range epochs(t, c, frozen.ID) {
		if old, had := before[p]; had && epoch < old+2 {
			t.Errorf("partition %d is back under epoch %d, it had %d: nobody held it between", p, epoch, old)
		}
	}
	s.WaitReceived(t, 500)
	c.Verify(t)
	t.Logf("the database refused to mark %d messages", frozen.Sum(t).Fenced)
	// The stopped one had published what it had not marked.
	if !strings.Contains(workers[1].Stderr()+workers[2].Stderr(), "the stream holds messages of an earlier owner that were not marked") {
		t.Error("the others did not find it in the stream")
	}
}

// freezeBeforeMark stops the worker while messages of its are in the stream and not yet marked in the database.
func freezeBeforeMark(t *testing.T, c *clustertest.Cluster, s *clustertest.Subscriber, w *clustertest.Worker) {
	t.Helper()
	const waiting = `FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'postrider delivery' AND wait_event_type = 'Lock'`
	tx, err := c.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `LOCK TABLE outbox_deliveries IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	s.WaitReceived(t, 3000)
	c.WaitCount(t, 3, `SELECT count(*) `+waiting)
	w.Signal(t, syscall.SIGSTOP)
	// What waits in the database would be done on the stopped worker's behalf; nothing else of its can be. The
	// others' marks are ended too, and repeated by them.
	if ended := c.Count(t, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 10000)) `+waiting); ended < 3 {
		t.Fatalf("%d marks could be ended, want the 3 that waited", ended)
	}
}

// epochs are those of the leases that a worker holds, by partition.
func epochs(t *testing.T, c *clustertest.Cluster, owner uuid.UUID) map[int]int64 {
	t.Helper()
	rows, err := c.Pool.Query(t.Context(), `SELECT partition_key, lease_epoch FROM outbox_partitions WHERE lease_owner = $1`, owner)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	held := map[int]int64{}
	for rows.Next() {
		var id int
		var epoch int64
		if err := rows.Scan(&id, &epoch); err != nil {
			t.Fatal(err)
		}
		held[id] = epoch
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return held
}
