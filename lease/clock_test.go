package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// stepBack makes the leases look as if the database's clock had stepped back since they were made.
func (b bundle) stepBack(t *testing.T) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), `UPDATE outbox_partitions SET lease_until = lease_until + interval '1 hour' WHERE lease_owner IS NOT NULL`); err != nil {
		t.Fatal(err)
	}
}

// A lease that ends later than one can is taken when nobody renewed it for as long as it was made for, by the watcher's
// own clock, and not before.
func TestADeadOwnersLeaseIsWatchedBehindAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	const ttl = 1500 * time.Millisecond
	dead, alive, heir := b.keeper(t, lease.Config{TTL: ttl}), b.keeper(t, lease.Config{TTL: ttl}), b.keeper(t, lease.Config{TTL: 20 * time.Second})
	b.acquire(t, dead, 0)
	held := b.acquire(t, alive, 1)
	b.stepBack(t)
	began := time.Now()
	if taken := b.acquire(t, heir, 0, 1); len(taken) > 0 {
		t.Fatalf("%d leases were taken from owners that may live", len(taken))
	}
	var snap lease.Snapshot
	for polled := time.NewTicker(ttl / 5); ; <-polled.C {
		if _, _, err := b.store.Renew(t.Context(), alive.Owner(), ttl, time.Second, held); err != nil {
			t.Fatal(err)
		}
		var err error
		if snap, err = b.store.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !snap.Rows[0].Ahead || snap.Rows[1].Ahead {
			t.Fatalf("only partition 0 ends later than a lease can: %+v", snap.Rows)
		}
		if !snap.Rows[0].Held() {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("the dead owner keeps its lease")
		}
	}
	if waited := time.Since(began); waited < ttl {
		t.Errorf("taken after %v, though a lease lasts %v", waited, ttl)
	}
	if taken := b.acquire(t, heir, 0, 1); len(taken) != 1 || taken[0].Partition != 0 {
		t.Errorf("taken %v, want partition 0 alone", taken)
	}
}

// An owner that comes back between the last look and the taking keeps its lease.
func TestARenewedLeaseIsNotTakenForSilent(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	const ttl = 500 * time.Millisecond
	k := b.keeper(t, lease.Config{TTL: ttl})
	held := b.acquire(t, k, 0)
	b.stepBack(t)
	for polled, n := time.NewTicker(ttl/5), 0; ; <-polled.C {
		snap, err := b.store.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !snap.Rows[0].Held() {
			break
		}
		if n++; n > 100 {
			t.Fatal("the dead owner keeps its lease")
		}
	}
	if _, _, err := b.store.Renew(t.Context(), k.Owner(), time.Minute, time.Second, held); err != nil {
		t.Fatal(err)
	}
	if taken, err := b.store.Acquire(t.Context(), uuid.Must(uuid.NewV7()), ttl, []partition.ID{0}); err != nil || len(taken) > 0 {
		t.Errorf("%d leases were taken from one that lives: %v", len(taken), err)
	}
}

// A worker without leasing is not kept from beginning by what the dead left behind before the clock stepped back; one that
// lives keeps it from that.
func TestAloneBehindAClockThatSteppedBack(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	const ttl = time.Second
	dead, alive, solo := b.keeper(t, lease.Config{TTL: ttl}), b.keeper(t, lease.Config{TTL: ttl}), b.keeper(t, lease.Config{})
	b.acquire(t, dead, 0)
	held := b.acquire(t, alive, 1)
	if _, err := b.pool.Exec(t.Context(), `INSERT INTO outbox_workers (worker_id, started_at, heartbeat_until, heartbeat_ttl, state)
		VALUES ($1, clock_timestamp(), clock_timestamp() + interval '1 hour', interval '1 s', 'active')`, dead.Owner()); err != nil {
		t.Fatal(err)
	}
	b.stepBack(t)
	refused := make(chan error, 1)
	go func() {
		_, err := solo.AcquireSolo(t.Context())
		refused <- err
	}()
	if _, _, err := b.store.Renew(t.Context(), alive.Owner(), time.Minute, time.Second, held); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, lease.ErrLeasedElsewhere) {
		t.Fatalf("beside one that lives: %v", err)
	}
	b.expire(t)
	b.acquire(t, dead, 0)
	b.stepBack(t)
	began := time.Now()
	if leases, err := solo.AcquireSolo(t.Context()); err != nil || len(leases) != 2 {
		t.Fatalf("beside the dead: %d leases, %v", len(leases), err)
	}
	if waited := time.Since(began); waited < ttl {
		t.Errorf("began after %v, though a lease lasts %v", waited, ttl)
	}
}
