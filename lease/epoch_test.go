package lease_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// A process that took a partition once more has the same name as before: what it
// still does under the older lease is refused by the epoch alone.
func TestAnOlderLeaseOfTheSameOwnerChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	k := b.keeper(t, lease.Config{})
	held := b.acquire(t, k, 0, 1)
	if taken, err := b.store.Acquire(t.Context(), k.Owner(), time.Minute, []partition.ID{0}); err != nil || len(taken) != 1 || taken[0].Epoch <= held[0].Epoch {
		t.Fatalf("taken again: %d, %v", len(taken), err)
	}
	if _, err := b.pool.Exec(t.Context(), `UPDATE outbox_partitions SET lease_until = 'infinity'`); err != nil {
		t.Fatal(err)
	}
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	renewed, _, err := b.store.Renew(t.Context(), k.Owner(), time.Second, time.Second, held)
	if err != nil || !slices.Equal(renewed, []partition.ID{1}) {
		t.Errorf("renewed %v, %v; want only partition 1", renewed, err)
	}
	// The same, around a row that somebody holds locked.
	if _, err := tx.Exec(t.Context(), `UPDATE outbox_partitions SET paused_at = now() WHERE partition_key = 1`); err != nil {
		t.Fatal(err)
	}
	renewed, locked, err := b.store.Renew(t.Context(), k.Owner(), time.Second, time.Millisecond, held)
	if err != nil || len(renewed) != 0 || !slices.Equal(locked, []partition.ID{1}) {
		t.Errorf("renewed %v, locked %v, %v; want none renewed and partition 1 locked", renewed, locked, err)
	}
	if freed, err := b.store.Release(t.Context(), k.Owner(), held[:1]); err != nil || len(freed) != 0 {
		t.Errorf("released %v, %v; want none", freed, err)
	}
	var untouched bool
	err = b.pool.QueryRow(t.Context(), `SELECT lease_until = 'infinity' AND lease_owner = $1 FROM outbox_partitions WHERE partition_key = 0`, k.Owner()).Scan(&untouched)
	if err != nil || !untouched {
		t.Errorf("the newer lease was changed: %v", err)
	}
}
