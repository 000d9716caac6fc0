package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

func TestOnlyOneWorkerGetsAPartition(t *testing.T) {
	t.Parallel()
	b := setup(t, 8)
	ids := []partition.ID{0, 1, 2, 3, 4, 5, 6, 7}
	const workers = 6
	var mu sync.Mutex
	owners := map[partition.ID]int{}
	var all sync.WaitGroup
	for range workers {
		k := b.keeper(t, lease.Config{})
		all.Go(func() {
			leases, err := k.Acquire(t.Context(), ids)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, l := range leases {
				owners[l.Partition]++
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if owners[id] > 1 {
			t.Errorf("partition %d was granted %d times", id, owners[id])
		}
	}
	// SKIP LOCKED may leave rows to nobody in the race; afterwards they are free.
	k := b.keeper(t, lease.Config{})
	for _, l := range b.acquire(t, k, ids...) {
		owners[l.Partition]++
	}
	for _, id := range ids {
		if owners[id] != 1 {
			t.Errorf("partition %d has %d owners", id, owners[id])
		}
	}
}

func TestEveryAcquisitionRaisesTheEpoch(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	var last int64
	for range 3 {
		k := b.keeper(t, lease.Config{})
		leases := b.acquire(t, k, 0)
		if len(leases) != 1 || leases[0].Epoch <= last {
			t.Fatalf("acquired %d leases, epoch must rise above %d", len(leases), last)
		}
		last = leases[0].Epoch
		b.expire(t)
	}
}

func TestRenewalEndsALeaseThatWasTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	old := b.keeper(t, lease.Config{TTL: 600 * time.Millisecond})
	held := b.acquire(t, old, 0, 1)
	b.expire(t)
	taken := b.acquire(t, b.keeper(t, lease.Config{}), 0)
	if len(taken) != 1 {
		t.Fatal("an expired lease could not be taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { _ = old.Run(ctx) })
	waitFor(t, "the loss of partition 0", held[0].Context().Done())
	if cause := context.Cause(held[0].Context()); !errors.Is(cause, lease.ErrLost) {
		t.Errorf("ended with %v, want %v", cause, lease.ErrLost)
	}
	cancel()
	running.Wait()
}

// A worker whose renewals do not arrive stops trusting its lease before the
// database gives it to anybody else.
func TestLocalTrustEndsBeforeTheDatabasesLease(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	k := b.keeper(t, lease.Config{TTL: time.Second})
	l := b.acquire(t, k, 0)[0]
	waitFor(t, "the end of trust", l.Context().Done())
	snapshot, err := b.store.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := snapshot.Rows[0].Left; left <= 0 {
		t.Errorf("trust ended %s after the lease did", -left)
	}
	if l.Enter() {
		t.Error("work was let in under an ended lease")
	}
}

// A row that somebody holds locked costs the lease of that row, and no other.
func TestALockedRowCostsOnlyItsOwnLease(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	k := b.keeper(t, lease.Config{TTL: 12 * time.Second}) // a busy machine may stand still for seconds
	held := b.acquire(t, k, 0, 1)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `UPDATE outbox_partitions SET paused_at = now() WHERE partition_key = 0`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = k.Run(ctx) })
	waitFor(t, "the end of the locked row's lease", held[0].Context().Done())
	if !held[1].Valid() {
		t.Error("the other lease ended, too")
	}
	cancel()
	running.Wait()
}

// The answer to an acquisition may be lost; what it took is freed at the end.
func TestDisownFreesWhatNobodyKnowsOf(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	k := b.keeper(t, lease.Config{})
	if _, err := b.store.Acquire(t.Context(), k.Owner(), time.Minute, []partition.ID{0, 2}); err != nil {
		t.Fatal(err)
	}
	other := b.acquire(t, b.keeper(t, lease.Config{}), 1)
	if err := k.Disown(t.Context()); err != nil {
		t.Fatal(err)
	}
	snapshot, err := b.store.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range snapshot.Rows {
		if r.Held() != (r.Partition == 1) || r.Partition == 1 && r.Owner != other[0].Owner {
			t.Errorf("partition %d has owner %s", r.Partition, r.Owner)
		}
	}
}

// While work of an older lease is inside, the partition is not taken again.
func TestUnfinishedWorkBlocksAnotherAcquisition(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	k := b.keeper(t, lease.Config{})
	l := b.acquire(t, k, 0)[0]
	if !l.Enter() {
		t.Fatal("work was refused under a fresh lease")
	}
	l.Lost()
	if again := b.acquire(t, k, 0); len(again) != 0 {
		t.Error("the partition was acquired while work of the old lease was inside")
	}
	l.Leave()
	again := b.acquire(t, k, 0)
	if len(again) != 1 || again[0].Epoch <= l.Epoch {
		t.Errorf("after the work had ended: %d leases", len(again))
	}
}

func TestReleaseWaitsForNothingAndFreesAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	first, second := b.keeper(t, lease.Config{}), b.keeper(t, lease.Config{})
	held := b.acquire(t, first, 0, 1)
	if taken := b.acquire(t, second, 0, 1); len(taken) != 0 {
		t.Fatalf("%d held leases were taken", len(taken))
	}
	for _, l := range held {
		waitFor(t, "the drain", l.Drain())
	}
	if freed, err := first.Release(t.Context(), held); err != nil || freed != 2 {
		t.Fatalf("%d freed: %v", freed, err)
	}
	if cause := context.Cause(held[0].Context()); !errors.Is(cause, lease.ErrReleased) {
		t.Errorf("ended with %v, want %v", cause, lease.ErrReleased)
	}
	if taken := b.acquire(t, second, 0, 1); len(taken) != 2 {
		t.Errorf("%d of 2 released leases could be taken", len(taken))
	}
}

// A release under an old epoch must not free the new owner's lease.
func TestStaleReleaseChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	old := b.keeper(t, lease.Config{})
	stale := b.acquire(t, old, 0)
	b.expire(t)
	fresh := b.acquire(t, b.keeper(t, lease.Config{}), 0)
	if freed, err := old.Release(t.Context(), stale); err != nil || freed != 0 {
		t.Fatalf("%d freed: %v", freed, err)
	}
	snapshot, err := b.store.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if row := snapshot.Rows[0]; row.Owner != fresh[0].Owner || row.Epoch != fresh[0].Epoch {
		t.Errorf("the row says owner %s epoch %d, want %s and %d", row.Owner, row.Epoch, fresh[0].Owner, fresh[0].Epoch)
	}
}

func TestWithoutLeasing(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	leased := b.keeper(t, lease.Config{})
	b.acquire(t, leased, 1)
	solo := b.keeper(t, lease.Config{})
	if _, err := solo.AcquireSolo(t.Context()); !errors.Is(err, lease.ErrLeasedElsewhere) {
		t.Fatalf("beside a leased worker: %v, want %v", err, lease.ErrLeasedElsewhere)
	}
	b.expire(t)
	leases, err := solo.AcquireSolo(t.Context())
	if err != nil || len(leases) != 4 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	for _, l := range leases {
		if !l.Solo() || l.Owner != uuid.Nil || !l.Enter() {
			t.Errorf("partition %d: not usable without leasing", l.Partition)
		}
		l.Leave()
	}
	// A leased worker that comes later fences the solo one.
	taken := b.acquire(t, b.keeper(t, lease.Config{}), 0, 1, 2, 3)
	if len(taken) != 4 || taken[0].Epoch <= leases[0].Epoch {
		t.Errorf("a leased worker got %d of 4 partitions", len(taken))
	}
}

func TestConfigIsRefusedByName(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]lease.Config{
		"TTL":        {TTL: time.Millisecond},
		"Margin":     {TTL: time.Second, Margin: time.Second},
		"RenewEvery": {TTL: time.Second, RenewEvery: time.Second},
	} {
		if err := cfg.WithDefaults().Validate(); !errors.Is(err, lease.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSyncAddsAndPrunes(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	if _, err := b.pool.Exec(t.Context(), `DELETE FROM outbox_partitions WHERE partition_key = 2;
		INSERT INTO outbox_partitions (partition_key) VALUES (4), (5);
		INSERT INTO outbox (global_sequence, partition_key, stream_id) VALUES (1, 5, 's')`); err != nil {
		t.Fatal(err)
	}
	added, removed, err := b.store.Sync(t.Context(), 4, true, true)
	if err != nil || added != 1 || removed != 1 {
		t.Fatalf("dry run: added %d, removed %d, %v", added, removed, err)
	}
	added, removed, err = b.store.Sync(t.Context(), 4, true, false)
	if err != nil || added != 1 || removed != 1 {
		t.Fatalf("added %d, removed %d, %v", added, removed, err)
	}
	snapshot, err := b.store.Snapshot(t.Context())
	if err != nil || len(snapshot.Rows) != 5 {
		t.Errorf("%d rows remain, want 0 to 3 and 5, which has a message: %v", len(snapshot.Rows), err)
	}
}
