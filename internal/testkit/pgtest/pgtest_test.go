package pgtest_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestEveryDatabaseIsEmptyAndItsOwn(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	for range 3 {
		pool := pgtest.Pool(t, pgtest.URL(t))
		if _, err := pool.Exec(ctx, "CREATE TABLE mine (id int)"); err != nil {
			t.Error(err)
		}
	}
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	var address string
	t.Run("user", func(t *testing.T) {
		address = pgtest.URL(t)
		conn, err := pgx.Connect(deadline(t), address)
		if err != nil {
			t.Fatal(err)
		}
		// Left open on purpose: a forgotten connection must not keep the database.
		_, err = conn.Exec(deadline(t), "SELECT 1")
		if err != nil {
			t.Fatal(err)
		}
	})
	if address == "" {
		t.Skip("there was no database")
	}
	conn, err := pgx.Connect(deadline(t), address)
	if err == nil {
		_ = conn.Close(t.Context())
		t.Error("the database outlived its test")
	}
}

func TestDatabasesAreMadeInParallel(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			if err := pgtest.Pool(t, pgtest.URL(t)).Ping(deadline(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMigratedCopiesOneTemplatePerPartitionCount(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 8, 8, 64} {
		t.Run(strconv.Itoa(partitions), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t, pgtest.Migrated(t, partitions))
			var rows, events int
			err := pool.QueryRow(deadline(t), `SELECT (SELECT count(*) FROM public.outbox_partitions),
				(SELECT count(*) FROM public.events)`).Scan(&rows, &events)
			if err != nil {
				t.Fatal(err)
			}
			if rows != partitions || events != 0 {
				t.Errorf("%d partitions and %d events, want %d and none", rows, events, partitions)
			}
			if _, err := pool.Exec(deadline(t), "DELETE FROM public.outbox_partitions"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestServerCanBeCrashed(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, localpg.Config{})
	if err := server.Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := pgtest.Pool(t, server.URL()).Ping(deadline(t)); err != nil {
		t.Error(err)
	}
}
