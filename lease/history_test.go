package lease_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// worker is a keeper whose worker is known by name.
func (b bundle) worker(t *testing.T, hostname string) *lease.Keeper {
	t.Helper()
	k := b.keeper(t, lease.Config{})
	b.exec(t, `INSERT INTO outbox_workers (worker_id, hostname, heartbeat_until) VALUES ($1, $2, clock_timestamp())`, k.Owner(), hostname)
	return k
}

func (b bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// take acquires past what the keeper still holds.
func (b bundle) take(t *testing.T, k *lease.Keeper, ids ...partition.ID) []*lease.Lease {
	t.Helper()
	leases, err := b.store.Acquire(t.Context(), k.Owner(), time.Minute, ids)
	if err != nil || len(leases) != len(ids) {
		t.Fatalf("%d of %d leases: %v", len(leases), len(ids), err)
	}
	return leases
}

func (b bundle) release(t *testing.T, k *lease.Keeper, leases []*lease.Lease) {
	t.Helper()
	if freed, err := b.store.Release(t.Context(), k.Owner(), leases); err != nil || len(freed) != len(leases) {
		t.Fatalf("%d of %d freed: %v", len(freed), len(leases), err)
	}
}

func (b bundle) history(t *testing.T, q lease.HistoryQuery) []lease.Change {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	h, err := b.store.History(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return h.Changes
}

// told puts changes into words, the oldest first.
func told(changes []lease.Change) (lines []string) {
	name := func(h lease.Owner) string {
		if h.Nobody() {
			return "-"
		}
		return h.Hostname
	}
	for _, c := range slices.Backward(changes) {
		lines = append(lines, fmt.Sprint(c.Kind, " ", name(c.From), " ", name(c.To), " ", c.Partitions, " ", c.Epochs))
	}
	return lines
}

func wantTold(t *testing.T, changes []lease.Change, want ...string) {
	t.Helper()
	if got := told(changes); !slices.Equal(got, want) {
		t.Errorf("the history says\n%q, want\n%q", got, want)
	}
}

// Whoever gets or loses a partition stands in the history, with who had it before,
// also when the rows of the workers are gone.
func TestHistoryTellsEveryChangeOfHands(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	one, two, three := b.worker(t, "one"), b.worker(t, "two"), b.worker(t, "three")
	held := b.take(t, one, 0, 1, 2)
	b.release(t, one, held[:1])
	b.exec(t, `DELETE FROM outbox_workers WHERE hostname = 'one'`) // it left, or was purged
	b.take(t, two, 0, 3)
	b.expire(t)
	b.take(t, three, 0, 1, 2, 3)
	b.expire(t)
	b.release(t, three, b.take(t, three, 3))
	b.take(t, three, 3)
	changes := b.history(t, lease.HistoryQuery{})
	wantTold(t, changes[:1], "retaken three three [3] [4]")
	wantTold(t, b.history(t, lease.HistoryQuery{Partition: new(partition.ID)}),
		"taken - one [0 1 2] [1 1 1]", "released one - [0] [1]", "moved one two [0] [2]", "taken-over two three [0 3] [3 2]")
	id := partition.ID(3)
	wantTold(t, b.history(t, lease.HistoryQuery{Partition: &id}), "taken - two [3] [1]", "taken-over two three [0 3] [3 2]",
		"retaken three three [3] [3]", "released three - [3] [3]", "retaken three three [3] [4]")
	id = 1
	wantTold(t, b.history(t, lease.HistoryQuery{Partition: &id}), "taken - one [0 1 2] [1 1 1]", "taken-over one three [1 2] [2 2]")
	for _, c := range changes {
		if silent := c.Kind == lease.TakenOver; silent != (c.RanOut != nil) || silent && !c.RanOut.Before(c.At) {
			t.Errorf("%s at %s: the lease before ran out at %v", c.Kind, c.At, c.RanOut)
		}
		if !c.From.Nobody() && !slices.Contains([]uuid.UUID{one.Owner(), two.Owner(), three.Owner()}, c.From.ID) {
			t.Errorf("from %s, which is none of the workers", c.From.ID)
		}
	}
}

// What others than workers do to leases is told by its name.
func TestHistoryTellsOfResizesAndOfWorkersWithoutLeasing(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	k := b.worker(t, "one")
	b.take(t, k, 0)
	if err := k.Disown(t.Context()); err != nil {
		t.Fatal(err)
	}
	resizer := uuid.Must(uuid.NewV7())
	if _, err := b.store.AcquireFrozen(t.Context(), resizer, time.Minute, []partition.ID{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if err := lease.Recount(t.Context(), tx, "public", 2, resizer); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Disown(t.Context(), resizer); err != nil {
		t.Fatal(err)
	}
	solo := b.keeper(t, lease.Config{})
	if _, err := solo.AcquireSolo(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.take(t, k, 0)
	changes := b.history(t, lease.HistoryQuery{})
	here := changes[1].To.Hostname // of this process: neither is a member
	if here == "" || changes[1].To.ID != solo.Owner() {
		t.Errorf("without leasing: %+v", changes[1])
	}
	wantTold(t, changes, "taken - one [0] [1]", "released one - [0] [1]",
		"resizing one "+here+" [0] [2]", "resizing - "+here+" [1 2] [1 1]",
		"removed "+here+" - [2] [1]", "released "+here+" - [0 1] [2 1]",
		"solo "+here+" "+here+" [0 1] [3 2]", "taken - one [0] [4]")
}

// A statement that changes no lease tells nothing, and neither does one that fails; a
// lease of which nothing can be told is not granted.
func TestHistoryHasNothingOfWhatDidNotHappen(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	one, two := b.worker(t, "one"), b.worker(t, "two")
	stale := b.acquire(t, one, 0)
	b.expire(t)
	held := b.acquire(t, two, 0)
	b.acquire(t, one, 0) // another's
	if freed, err := one.Release(t.Context(), stale); err != nil || freed != 0 {
		t.Fatalf("%d freed: %v", freed, err)
	}
	if err := one.Disown(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"taken - one [0] [1]", "taken-over one two [0] [2]"}
	wantTold(t, b.history(t, lease.HistoryQuery{}), want...)

	b.exec(t, `ALTER TABLE outbox_partitions ADD CONSTRAINT stays CHECK (lease_owner IS NOT NULL) NOT VALID`)
	if _, err := b.store.Release(t.Context(), two.Owner(), held); err == nil {
		t.Error("the release did not fail")
	}
	b.exec(t, `ALTER TABLE outbox_partitions DROP CONSTRAINT stays`)
	b.exec(t, `ALTER TABLE outbox_ownership ADD CONSTRAINT silent CHECK (kind = 'none') NOT VALID`)
	if leases, err := b.store.Acquire(t.Context(), one.Owner(), time.Minute, []partition.ID{1}); err == nil {
		t.Errorf("%d leases were granted in silence", len(leases))
	}
	if _, err := b.store.Release(t.Context(), two.Owner(), held); err == nil {
		t.Error("a lease was released in silence")
	}
	wantTold(t, b.history(t, lease.HistoryQuery{}), want...)
	snapshot, err := b.store.Snapshot(t.Context())
	if err != nil || snapshot.Rows[0].Owner != two.Owner() || snapshot.Rows[1].Owner != uuid.Nil || snapshot.Rows[1].Epoch != 0 {
		t.Errorf("the leases are %+v: %v", snapshot.Rows, err)
	}
}

func TestHistoryIsReadInParts(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	if h, err := b.store.History(t.Context(), lease.HistoryQuery{Limit: 1}); err != nil || !h.Begins.IsZero() || len(h.Changes) != 0 {
		t.Errorf("in the beginning: %+v, %v", h, err)
	}
	k := b.worker(t, "one")
	for range 3 {
		b.release(t, k, b.take(t, k, 0))
	}
	b.exec(t, `UPDATE outbox_ownership SET changed_at = '2026-11-23T03:00:00Z'::timestamptz + id * interval '1 minute'`)
	all := b.history(t, lease.HistoryQuery{})
	if len(all) != 6 {
		t.Fatalf("%d changes, want 6", len(all))
	}
	page := b.history(t, lease.HistoryQuery{Limit: 2, Before: all[1].ID})
	if !slices.Equal(told(page), told(all[2:4])) {
		t.Errorf("the second page is %q", told(page))
	}
	// Who had it at 03:04 and a half: the last change until then.
	at := all[0].At.Add(-90 * time.Second)
	if then := b.history(t, lease.HistoryQuery{Limit: 1, Until: at}); len(then) != 1 || then[0].ID != all[2].ID {
		t.Errorf("at %s: %q", at, told(then))
	}
	if since := b.history(t, lease.HistoryQuery{Since: all[1].At}); len(since) != 2 {
		t.Errorf("since %s: %q", all[1].At, told(since))
	}
	other := partition.ID(1)
	if h, err := b.store.History(t.Context(), lease.HistoryQuery{Partition: &other, Limit: 1}); err != nil || len(h.Changes) != 0 || !h.Begins.Equal(all[5].At) {
		t.Errorf("of a partition that nobody had: %+v, %v", h, err)
	}
}
