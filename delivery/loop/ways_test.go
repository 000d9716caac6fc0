package loop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/lease"
)

// serverFunctions are those that managed servers may refuse.
var serverFunctions = []string{
	"pg_control_system()", "pg_walfile_name(pg_lsn)", "pg_current_wal_insert_lsn()",
}

// eachWay runs a test with a server that gives all functions, and with one that refuses them to the relay's role.
func eachWay(t *testing.T, partitions int, run func(t *testing.T, b *bundle)) {
	t.Helper()
	for name, refuses := range map[string]bool{"all functions": false, "functions refused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, partitions)
			if refuses {
				b.refuseFunctions(t)
			}
			run(t, b)
		})
	}
}

// storings are how messages come into a stream.
var storings = map[string]func(*bundle, *testing.T){"in batches": (*bundle).inBatches, "one by one": (*bundle).oneByOne}

// eachStoring runs a test with a stream that takes batches, and with one that takes none.
func eachStoring(t *testing.T, partitions int, run func(t *testing.T, b *bundle)) {
	t.Helper()
	for name, store := range storings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, partitions)
			store(b, t)
			run(t, b)
		})
	}
}

// inBatches has even a single message go as a batch.
func (b *bundle) inBatches(*testing.T) { b.staging = 1 }

// oneByOne has the stream take no batches.
func (b *bundle) oneByOne(t *testing.T) {
	t.Helper()
	b.edit(t, func(s *jetstream.StreamConfig) { s.AllowAtomicPublish = false })
}

// refuseFunctions has the bundle's stores be those of a plain role that may not call the functions.
func (b *bundle) refuseFunctions(t *testing.T) {
	t.Helper()
	role := pgx.Identifier{"relay_" + strings.ReplaceAll(uuid.NewString(), "-", "")}.Sanitize()
	for _, statement := range []string{
		"CREATE ROLE " + role, "REVOKE EXECUTE ON FUNCTION " + strings.Join(serverFunctions, ", ") + " FROM PUBLIC",
		"GRANT ALL ON ALL TABLES IN SCHEMA public TO " + role, "GRANT ALL ON ALL FUNCTIONS IN SCHEMA public TO " + role,
		"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO " + role,
	} {
		b.exec(t, statement)
	}
	pool := pgtest.PoolAs(t, b.pool.Config().ConnString(), role)
	var err error
	if b.store, err = pgstore.New(t.Context(), pool, "public", pgstore.Relation{}); err != nil {
		t.Fatal(err)
	}
	if b.leases, err = lease.NewStore(t.Context(), pool, "public"); err != nil {
		t.Fatal(err)
	}
	for _, way := range []pg.Way{b.store.Way(), b.leases.Way()} {
		if way.Instead == "" || !strings.Contains(way.Instead, "permission denied for function") || len(way.Needs) > 0 {
			t.Errorf("a way that needs no function is not told: %+v", way)
		}
	}
	b.keeper = b.newKeeper(t)
}

// A server that was started again is another database where nothing else tells: what it gave out may be forgotten.
func TestADatabaseIsKnownByItsStart(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.refuseFunctions(t)
	b.acquireAll(t, b.keeper)
	leases := b.keeper.Set().Held()
	if got := leases[1].Progress.Database; got == "" || got != leases[0].Progress.Database {
		t.Fatalf("the database is %q and %q", got, leases[0].Progress.Database)
	}
	leases[0].Progress.Database = "2026-01-01 00:00:00+00" // as if acquired before a restart
	renewed, locked, err := b.leases.Renew(t.Context(), b.keeper.Owner(), time.Hour, time.Second, leases)
	if err != nil || len(locked) != 0 || len(renewed) != 1 || renewed[0] != leases[1].Partition {
		t.Fatalf("renewed %v, locked %v, %v; want only partition %d", renewed, locked, err, leases[1].Partition)
	}
}
