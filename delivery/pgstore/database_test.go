package pgstore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// What a server must have is asked for once, and what it lacks is named with its cure.
func TestWhatADatabaseLacksIsNamed(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 2)
	owner := pgtest.Pool(t, address)
	role := "relay_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	quoted := pgx.Identifier{role}.Sanitize()
	if _, err := owner.Exec(t.Context(), "CREATE ROLE "+quoted); err != nil {
		t.Fatal(err)
	}
	relay := pgtest.PoolAs(t, address, quoted)
	if err := pgstore.CheckDatabase(t.Context(), relay); err != nil {
		t.Fatalf("of an ordinary role: %v", err)
	}
	for _, function := range []string{"pg_control_system()", "pg_walfile_name(pg_lsn)", "pg_current_wal_insert_lsn()"} {
		if _, err := owner.Exec(t.Context(), "REVOKE EXECUTE ON FUNCTION "+function+" FROM PUBLIC"); err != nil {
			t.Fatal(err)
		}
		if err := pgstore.CheckDatabase(t.Context(), relay); err != nil {
			t.Errorf("without %s, which nobody here calls: %v", function, err)
		}
		name, _, _ := strings.Cut(function, "(")
		err := pgstore.CheckDatabase(t.Context(), relay, name)
		if cure := fmt.Sprintf("GRANT EXECUTE ON FUNCTION %s TO %s", function, quoted); !errors.Is(err, pgstore.ErrFunctions) || !strings.HasSuffix(err.Error(), cure) {
			t.Errorf("without %s: %v", function, err)
		}
		board := condition.NewBoard(slog.New(slog.DiscardHandler))
		board.Report(condition.Database, err)
		if first := board.First(); first == nil || first.Reason != condition.DatabaseRights {
			t.Errorf("without %s the condition is %+v", function, first)
		}
		if _, err := owner.Exec(t.Context(), "GRANT EXECUTE ON FUNCTION "+function+" TO PUBLIC"); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := relay.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if err := pgstore.CheckDatabase(t.Context(), tx); !errors.Is(err, pgstore.ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
}
