package lease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// After a failover the row still carries owner and epoch, but what was read and
// settled since may be forgotten: the lease ends, and the next one knows the new
// timeline.
func TestAFailoverOfTheDatabaseEndsLeases(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	k := b.keeper(t, lease.Config{TTL: 3 * time.Second})
	leases := b.acquire(t, k, 0, 1)
	identifier, timeline, _ := strings.Cut(leases[1].Progress.Database, "/")
	if len(identifier) < 10 || len(timeline) != 8 {
		t.Fatalf("the database is %q", leases[1].Progress.Database)
	}
	leases[0].Progress.Database = identifier + "/00000000" // as if acquired before a promotion
	renewed, locked, err := b.store.Renew(t.Context(), k.Owner(), 3*time.Second, time.Second, leases)
	if err != nil || len(locked) != 0 || len(renewed) != 1 || renewed[0] != 1 {
		t.Fatalf("renewed %v, locked %v, %v; want only partition 1", renewed, locked, err)
	}
}

// While the outbox is frozen nobody gets a partition.
func TestAFrozenOutboxGivesNoLeases(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	k := b.keeper(t, lease.Config{})
	for _, step := range []struct {
		sql  string
		want int
	}{
		{`UPDATE outbox_settings SET frozen_at = clock_timestamp()`, 0},
		{`UPDATE outbox_settings SET frozen_at = NULL`, 2},
	} {
		if _, err := b.pool.Exec(t.Context(), step.sql); err != nil {
			t.Fatal(err)
		}
		snapshot, err := b.store.Snapshot(t.Context())
		if err != nil || snapshot.Frozen != (step.want == 0) {
			t.Fatalf("frozen %t, %v", snapshot.Frozen, err)
		}
		if got := b.acquire(t, k, []partition.ID{0, 1}...); len(got) != step.want {
			t.Errorf("after %q: %d leases", step.sql, len(got))
		}
	}
}

// Owners that let their lease run out are counted until somebody settles something.
func TestCrashesAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for want := range 3 {
		k := b.keeper(t, lease.Config{})
		if got := b.acquire(t, k, 0)[0].Progress.Crashes; got != want {
			t.Errorf("%d crashes are counted, want %d", got, want)
		}
		b.expire(t)
	}
	k := b.keeper(t, lease.Config{})
	held := b.acquire(t, k, 0)
	if _, err := k.Release(t.Context(), held); err != nil { // an orderly end is no crash
		t.Fatal(err)
	}
	if got := b.acquire(t, b.keeper(t, lease.Config{}), 0)[0].Progress.Crashes; got != 3 {
		t.Errorf("%d crashes are counted after an orderly end, want 3", got)
	}
}
