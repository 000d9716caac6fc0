package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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
	// The same, while somebody holds rows locked.
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `UPDATE outbox_partitions SET paused_at = now() WHERE partition_key = 1`); err != nil {
		t.Fatal(err)
	}
	renewed, locked, err = b.store.Renew(t.Context(), k.Owner(), 3*time.Second, time.Millisecond, leases)
	if err != nil || len(renewed) != 0 || len(locked) != 1 || locked[0] != 1 {
		t.Errorf("around a locked row: renewed %v, locked %v, %v; want only partition 1, locked", renewed, locked, err)
	}
}

// While the outbox is frozen nobody but who froze it gets a partition; when that one's
// session is gone, however it ended, all are free at once, those it held included.
func TestAFrozenOutboxGivesNoLeases(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b bundle, thaw func() error) error{
		"thawed": func(_ bundle, thaw func() error) error { return thaw() },
		"its session ended, behind a clock that stepped back": func(b bundle, _ func() error) error {
			if _, err := b.pool.Exec(t.Context(), `UPDATE outbox_settings SET frozen_at = frozen_at + interval '1 hour'`); err != nil {
				return err
			}
			_, err := b.pool.Exec(t.Context(), `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000)) FROM pg_locks
				WHERE locktype = 'advisory' AND objsubid = 2 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 2)
			k, resizer := b.keeper(t, lease.Config{}), uuid.Must(uuid.NewV7())
			thaw, err := lease.Freeze(t.Context(), b.pool, "public", resizer, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer thaw() //nolint:errcheck // it is tested elsewhere
			if _, err := lease.Freeze(t.Context(), b.pool, "public", uuid.Must(uuid.NewV7()), slog.Default()); !errors.Is(err, lease.ErrFrozen) {
				t.Errorf("frozen twice: %v", err)
			}
			if got := b.acquire(t, k, 0, 1); len(got) != 0 {
				t.Errorf("%d leases of a frozen outbox", len(got))
			}
			held, err := b.store.AcquireFrozen(t.Context(), resizer, time.Hour, []partition.ID{0, 1})
			if err != nil || len(held) != 2 {
				t.Fatalf("who froze it got %d leases: %v", len(held), err)
			}
			if snapshot, err := b.store.Snapshot(t.Context()); err != nil || !snapshot.Frozen || len(snapshot.Owners()) != 2 {
				t.Errorf("frozen %t, owners %v, %v", snapshot.Frozen, snapshot.Owners(), err)
			}
			if name == "thawed" {
				if _, err := b.store.Disown(t.Context(), resizer); err != nil {
					t.Fatal(err)
				}
			}
			if err := end(b, thaw); err != nil {
				t.Fatal(err)
			}
			if snapshot, err := b.store.Snapshot(t.Context()); err != nil || snapshot.Frozen || len(snapshot.Owners()) != 0 {
				t.Errorf("at the end: frozen %t, owners %v, %v", snapshot.Frozen, snapshot.Owners(), err)
			}
			if got := b.acquire(t, k, 0, 1); len(got) != 2 {
				t.Errorf("%d leases at the end, want 2", len(got))
			}
		})
	}
}

// begun keeps the transaction that was begun last.
type begun struct {
	*pgxpool.Pool
	tx pgx.Tx
}

func (b *begun) Begin(ctx context.Context) (tx pgx.Tx, err error) {
	b.tx, err = b.Pool.Begin(ctx)
	return b.tx, err
}

// The server asks for a sign of life of whoever froze the outbox: its clock may have stepped back since.
func TestAFreezeEndsWithItsMachine(t *testing.T) {
	t.Parallel()
	db := &begun{Pool: setup(t, 1).pool}
	thaw, err := lease.Freeze(t.Context(), db, "public", uuid.Must(uuid.NewV7()), slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	var patience int
	if err := db.tx.QueryRow(t.Context(), `SELECT current_setting('tcp_keepalives_idle')::int
		+ current_setting('tcp_keepalives_interval')::int * current_setting('tcp_keepalives_count')::int`).Scan(&patience); err != nil || patience > 60 {
		t.Errorf("the server takes %d s until it notices that the other side has vanished: %v", patience, err)
	}
	if err := thaw(); err != nil {
		t.Error(err)
	}
}

// Owners that let their lease run out are counted until somebody settles something: the first, and those that carried something.
func TestCrashesAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for _, want := range []int{0, 1, 1, 1} { // who had nothing under way ended over nothing
		k := b.keeper(t, lease.Config{})
		if got := b.acquire(t, k, 0)[0].Progress.Crashes; got != want {
			t.Errorf("%d crashes are counted, want %d", got, want)
		}
		b.expire(t)
	}
	for _, want := range []int{2, 3} {
		b.exec(t, `UPDATE outbox_partitions SET carrying = true`)
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
