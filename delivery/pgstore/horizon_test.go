package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// An open snapshot moves the horizon back, and so does what was written in a transaction that is open; its end lets it go on.
func TestHorizonSeesAnOpenTransaction(t *testing.T) {
	t.Parallel()
	for isolation, first := range map[pgx.TxIsoLevel]string{pgx.RepeatableRead: `SELECT 1`, pgx.ReadCommitted: `SELECT pg_current_xact_id()`} {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel()
			horizonSees(t, isolation, first)
		})
	}
}

func horizonSees(t *testing.T, isolation pgx.TxIsoLevel, first string) {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 2))
	store, err := pgstore.New(t.Context(), pool, "public", pgstore.Relation{Name: "events"})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: isolation})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	for range 3 { // transactions that the snapshot does not see
		if _, err := pool.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
			t.Fatal(err)
		}
	}
	held, err := store.Horizon(t.Context())
	if err != nil || held.Transactions < 3 || held.Age <= 0 {
		t.Errorf("with an open transaction: %+v, %v", held, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	free, err := store.Horizon(t.Context())
	if err != nil || free.Age >= held.Age {
		t.Errorf("after its end: %+v, %v; before %+v", free, err, held)
	}
}

func TestHorizonIsHiddenFromARoleThatMayNotKnow(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 2)
	owner := pgtest.Pool(t, address)
	role := pgx.Identifier{"blind_" + strings.ReplaceAll(uuid.NewString(), "-", "")}.Sanitize()
	for _, sql := range []string{`CREATE ROLE ` + role, `GRANT SELECT ON events TO ` + role} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, sql := range []string{`DROP OWNED BY ` + role, `DROP ROLE ` + role} {
			if _, err := owner.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	store, err := pgstore.New(t.Context(), pgtest.PoolAs(t, address, role), "public", pgstore.Relation{Name: "events"})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := store.Horizon(t.Context()); !errors.Is(err, pgstore.ErrHorizonHidden) {
		t.Errorf("%+v, %v", h, err)
	}
}
