package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/schema"
)

// openAs is a pool as workers and commands have it, of a role.
func openAs(t *testing.T, address, role string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	if role != "" {
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET ROLE "+role)
			return err
		}
	}
	pool, err := pg.Connections{Name: "test", Most: 1}.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// found are the violations of that name.
func found(t *testing.T, db pg.DB, name string) (list []pgstore.Violation) {
	t.Helper()
	all, err := pgstore.CheckStrict(t.Context(), db, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if v.Precondition == name {
			list = append(list, v)
		}
	}
	return list
}

// Rows that a policy hides are an error that names the table, never none.
func TestRowsThatAPolicyHidesAreAnError(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 1)
	owner := pgtest.Pool(t, address)
	role := "relay_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	exec := func(statements ...string) {
		t.Helper()
		for _, sql := range statements {
			if _, err := owner.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	exec("CREATE ROLE "+role, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+role)
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := owner.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
				t.Error(err)
			}
		}
	})
	pool := openAs(t, address, role)
	if got := found(t, pool, "policies"); len(got) != 0 {
		t.Errorf("before: %v", got)
	}
	exec("ALTER TABLE outbox_ready ENABLE ROW LEVEL SECURITY", "SELECT outbox_append('s', 't', '{}')")
	var n int
	err := pool.QueryRow(t.Context(), "SELECT count(*) FROM public.outbox_ready").Scan(&n)
	if err == nil || !strings.Contains(err.Error(), `row-level security policy for table "outbox_ready"`) {
		t.Errorf("%d rows, %v; want an error that names the table", n, err)
	}
	got := found(t, pool, "policies")
	if len(got) != 1 || !strings.Contains(got[0].Detail, "public.outbox_ready") || !got[0].Forbids(delivery.OrderStream) {
		t.Fatalf("the check finds %v", got)
	}
	cure, _, _ := strings.Cut(got[0].Cure, " (as")
	exec(cure)
	if got := found(t, pool, "policies"); len(got) != 0 {
		t.Errorf("after %s: %v", cure, got)
	}
}

// A sequence behind its table is named, and what is printed mends it.
func TestASequenceBehindItsTableIsNamed(t *testing.T) {
	t.Parallel()
	pool := openAs(t, pgtest.Migrated(t, 1), "")
	for _, sql := range []string{
		"SELECT public.outbox_append('s', 't', '{}')", "SELECT public.outbox_append('s', 't', '{}')", "ALTER TABLE public.events ALTER COLUMN sequence RESTART",
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	got := found(t, pool, "behind")
	if len(got) != 1 || !strings.Contains(got[0].Detail, "events_sequence_seq") {
		t.Fatalf("the check finds %v", got)
	}
	for _, sql := range []string{got[0].Cure, "SELECT public.outbox_append('s', 't', '{}')"} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if got := found(t, pool, "behind"); len(got) != 0 {
		t.Errorf("afterwards: %v", got)
	}
}

// A name is the same in a database of another encoding, and lies in the same partition.
func TestNamesAreTheSameInEveryEncoding(t *testing.T) {
	t.Parallel()
	const name = "Grüße"
	address := pgtest.Encoded(t, "LATIN1")
	m, err := schema.New(schema.Config{DatabaseURL: address, Schema: "public", Partitions: 64})
	if err == nil {
		err = m.Up(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	var stored string
	var same bool
	pool := openAs(t, address, "")
	if _, err = pool.Exec(t.Context(), "SELECT public.outbox_append($1, 't', '{}')", name); err == nil {
		err = pool.QueryRow(t.Context(), "SELECT stream_id, length(stream_id) = 5 FROM public.events").Scan(&stored, &same)
	}
	if err != nil || stored != name || !same {
		t.Errorf("the stream is %q, five letters: %t, %v", stored, same, err)
	}
	const partition = "SELECT public.outbox_partition($1, 64)"
	var here, usual int
	if err := pool.QueryRow(t.Context(), partition, name).Scan(&here); err != nil {
		t.Fatal(err)
	}
	if err := pgtest.Pool(t, pgtest.Migrated(t, 64)).QueryRow(t.Context(), partition, name).Scan(&usual); err != nil || here != usual {
		t.Errorf("partition %d, in UTF8 %d, %v", here, usual, err)
	}
}

func TestSQLASCIIIsRefused(t *testing.T) {
	t.Parallel()
	m, err := schema.New(schema.Config{DatabaseURL: pgtest.Encoded(t, "SQL_ASCII"), Schema: "public", Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Up(t.Context()); !errors.Is(err, schema.ErrEncoding) {
		t.Errorf("migrated with %v", err)
	}
}
