package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is a migrated database with a store on it.
type bundle struct {
	pool  *pgxpool.Pool
	store *lease.Store
}

func setup(t *testing.T, partitions int) bundle {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.Migrated(t, partitions))
	store, err := lease.NewStore(t.Context(), pool, "public")
	if err != nil {
		t.Fatal(err)
	}
	return bundle{pool, store}
}

func (b bundle) keeper(t *testing.T, cfg lease.Config) *lease.Keeper {
	t.Helper()
	k, err := lease.NewKeeper(b.store, uuid.Must(uuid.NewV7()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (b bundle) acquire(t *testing.T, k *lease.Keeper, ids ...partition.ID) []*lease.Lease {
	t.Helper()
	leases, err := k.Acquire(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	return leases
}

// expire makes the database believe that the leases ran out.
func (b bundle) expire(t *testing.T) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), `UPDATE outbox_partitions SET lease_until = clock_timestamp() - interval '1 ms' WHERE lease_owner IS NOT NULL`)
	if err != nil {
		t.Fatal(err)
	}
}

func waitFor(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatalf("waited in vain for %s", what)
	}
}
