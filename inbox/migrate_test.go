package inbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.URL(t))
	box, err := inbox.New(pool, inbox.Config{Name: "n", Schema: "Odd_1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Process(t.Context(), event("s", 1), apply); !errors.Is(err, inbox.ErrNotMigrated) {
		t.Errorf("without tables it gives %v", err)
	}
	if _, _, err := inbox.Version(t.Context(), pool, "Odd_1"); !errors.Is(err, inbox.ErrNotMigrated) {
		t.Errorf("the version of nothing gives %v", err)
	}
	var group sync.WaitGroup
	for range 4 { // any number at once, again and again
		group.Go(func() {
			if err := inbox.Migrate(t.Context(), pool, "Odd_1"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	stored, needed, err := inbox.Version(t.Context(), pool, "Odd_1")
	if err != nil || stored != needed || stored == 0 {
		t.Errorf("version %d of %d, %v", stored, needed, err)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO "Odd_1".inbox_schema_version (version) VALUES (99)`); err != nil {
		t.Fatal(err)
	}
	if err := inbox.Migrate(t.Context(), pool, "Odd_1"); !errors.Is(err, inbox.ErrNewer) {
		t.Errorf("newer tables give %v", err)
	}
	if err := inbox.Migrate(t.Context(), pool, `a"b`); err == nil {
		t.Error("a schema with a quote is accepted")
	}
}

// Whoever waits for another's migration sees it then, whatever isolation is the database's default.
func TestMigrationsOfIsolatedSessions(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		url := pgtest.URL(t)
		set := `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', current_database(), '` + level + `'); END $$`
		if _, err := pgtest.Pool(t, url).Exec(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		pool := pgtest.Pool(t, url)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if err := inbox.Migrate(t.Context(), pool, "apart"); err != nil {
					t.Errorf("%s: %v", level, err)
				}
			})
		}
		group.Wait()
	}
}

// An application keeps what it granted on its own objects, whatever they are called; what default privileges give away of ours is taken
// back, from a role with capitals in its name, too.
func TestAnApplicationKeepsItsGrants(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := pgtest.Pool(t, url)
	run := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
			t.Fatal(err)
		}
	}
	const reader, owner = "postrider_test_mail", `"Postrider_Test_Owner"`
	run(`CREATE ROLE ` + reader + `; CREATE ROLE ` + owner + `; GRANT CREATE ON SCHEMA public TO ` + owner + `;
		ALTER DEFAULT PRIVILEGES FOR ROLE ` + owner + ` IN SCHEMA public GRANT ALL ON TABLES TO ` + reader + `, PUBLIC;
		ALTER DEFAULT PRIVILEGES FOR ROLE ` + owner + ` IN SCHEMA public GRANT ALL ON SEQUENCES TO ` + reader + `;
		ALTER DEFAULT PRIVILEGES FOR ROLE ` + owner + ` IN SCHEMA public GRANT EXECUTE ON FUNCTIONS TO ` + reader + `;
		SET ROLE ` + owner + `; CREATE TABLE inbox_mail (id bigserial); CREATE FUNCTION inbox_of_mine() RETURNS int LANGUAGE sql AS 'SELECT 1';
		CREATE FUNCTION inbox_begin(int) RETURNS int LANGUAGE sql AS 'SELECT 1'; RESET ROLE`)
	t.Cleanup(func() { run(`DROP OWNED BY ` + reader + `, ` + owner + ` CASCADE; DROP ROLE ` + reader + `, ` + owner) })
	if err := inbox.Migrate(t.Context(), pgtest.PoolAs(t, url, owner), "public"); err != nil {
		t.Fatal(err)
	}
	var held string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(DISTINCT name, ' ' ORDER BY name) FROM (
		SELECT c.relname::text AS name FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.relnamespace = 'public'::regnamespace AND a.grantee IN (0, '`+reader+`'::regrole)
		 UNION ALL
		SELECT p.proname FROM pg_proc AS p, aclexplode(p.proacl) AS a WHERE p.pronamespace = 'public'::regnamespace AND a.grantee = '`+reader+`'::regrole) AS g`).Scan(&held); err != nil {
		t.Fatal(err)
	}
	if held != "inbox_begin inbox_mail inbox_mail_id_seq inbox_of_mine" {
		t.Errorf("after the migration %s holds rights on %s", reader, held)
	}
	var tables []string
	if err := pool.QueryRow(t.Context(), `SELECT array_agg(relname::text ORDER BY relname) FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'inbox_mail'`).Scan(&tables); err != nil || !slices.Equal(tables, pg.InboxTables) {
		t.Errorf("the tables are %q, and statements know %q, %v", tables, pg.InboxTables, err)
	}
}
