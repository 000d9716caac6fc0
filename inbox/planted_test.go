package inbox_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// Who may create in the schema leaves nothing there that runs as whoever migrates.
func TestAPlantedTableOfVersionsIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.URL(t))
	var role string
	if err := pool.QueryRow(t.Context(), `SELECT 'planter_' || replace(gen_random_uuid()::text, '-', '')`).Scan(&role); err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE ROLE ` + role + `; GRANT USAGE, CREATE ON SCHEMA public TO ` + role + `; CREATE SEQUENCE ran`)
	defer exec(`DROP OWNED BY ` + role + ` CASCADE; DROP ROLE ` + role)
	exec(`SET ROLE ` + role + `; CREATE TABLE inbox_schema_version (version int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());
		CREATE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF current_user <> ''` + role + `'' THEN PERFORM nextval(''public.ran''); END IF; RETURN NEW; END';
		CREATE TRIGGER planted BEFORE INSERT ON inbox_schema_version FOR EACH ROW EXECUTE FUNCTION planted(); RESET ROLE`)
	if err := inbox.Migrate(t.Context(), pool, ""); err == nil || !strings.Contains(err.Error(), role+" made ") {
		t.Errorf("it gives %v", err)
	}
	var ran bool
	if err := pool.QueryRow(t.Context(), `SELECT is_called FROM ran`).Scan(&ran); err != nil || ran {
		t.Errorf("what was planted ran as whoever migrates: %t, %v", ran, err)
	}
	exec(`DROP TABLE inbox_schema_version`)
	for range 2 {
		if err := inbox.Migrate(t.Context(), pool, ""); err != nil {
			t.Error(err)
		}
	}
}
