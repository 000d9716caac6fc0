package schema_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/schema"
)

// An application keeps what it granted on its own objects, whatever they are called; what default privileges give away of ours is taken back.
func TestAnApplicationKeepsItsGrants(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	conn := connect(t, url)
	const role = "postrider_test_reader"
	run(t, conn, `CREATE ROLE `+role+`;
		ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO `+role+`, PUBLIC;
		ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON SEQUENCES TO `+role+`;
		ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT EXECUTE ON FUNCTIONS TO `+role+`;
		CREATE TABLE outbox_event (id bigserial); CREATE TABLE events_log (id bigint GENERATED ALWAYS AS IDENTITY); CREATE VIEW outbox_shown AS SELECT 1;
		CREATE FUNCTION outbox_of_mine() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION outbox_append(int) RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	t.Cleanup(func() { cleanUp(t, url, `DROP OWNED BY `+role, `DROP ROLE `+role) })
	const held = `SELECT string_agg(DISTINCT name, ' ' ORDER BY name) FROM (
		SELECT c.relname::text AS name FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.relnamespace = 'public'::regnamespace AND a.grantee IN (0, $1::regrole)
		 UNION ALL
		SELECT p.proname FROM pg_proc AS p, aclexplode(p.proacl) AS a WHERE p.pronamespace = 'public'::regnamespace AND a.grantee = $1::regrole) AS g`
	const own = "events_log events_log_id_seq outbox_append outbox_event outbox_event_id_seq outbox_of_mine outbox_shown"
	if got := one[string](t, conn, held, role); got != own {
		t.Fatalf("before, %s holds rights on %s", role, got)
	}
	if err := migrator(t, schema.Config{DatabaseURL: url, Partitions: 4, OthersMayCreate: true}).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, conn, held, role); got != own {
		t.Errorf("after migrate up %s holds rights on %s, want %s", role, got, own)
	}
	tables := one[[]string](t, conn, `SELECT array_agg(relname::text ORDER BY relname) FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname NOT IN ('outbox_event', 'events_log')`)
	if !slices.Equal(tables, pg.OutboxTables) {
		t.Errorf("the tables are %q, and statements know %q", tables, pg.OutboxTables)
	}
	run(t, conn, `SELECT outbox_events_bound(); ALTER TABLE events VALIDATE CONSTRAINT events_bound; SELECT outbox_events_split()`)
	if got := one[string](t, conn, held, role); got != own {
		t.Errorf("after a split %s holds rights on %s, want %s", role, got, own)
	}
}

// What an application calls as the parts of events will be called is named before events are split, and where the next part begins.
func TestNamesOfPartsThatAreTakenAreNamed(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	run(t, conn, `CREATE TABLE events_0 (id int); CREATE TYPE events_1 AS ENUM ('a'); CREATE SEQUENCE events_0_event_id_key; CREATE TABLE events_2 (id int)`)
	got := one[string](t, conn, `SELECT outbox_events_hindrance()`)
	for _, want := range []string{"public.events_0 has a name", "type public.events_1 has a name", "public.events_0_event_id_key has a name"} {
		if !strings.Contains(got, want) {
			t.Errorf("in the way is %q, without %q", got, want)
		}
	}
	run(t, conn, `DROP TABLE events_0; DROP TYPE events_1; DROP SEQUENCE events_0_event_id_key`)
	if got := one[*string](t, conn, `SELECT outbox_events_hindrance()`); got != nil {
		t.Fatalf("in the way is still %q", *got)
	}
	run(t, conn, `SELECT outbox_events_bound(); ALTER TABLE events VALIDATE CONSTRAINT events_bound; SELECT outbox_events_split(); SELECT outbox_append('a', 'b', '1')`)
	refused(t, conn, `SELECT outbox_events_begin()`, "42P07")
	run(t, conn, `ALTER TABLE events_2 RENAME TO mine; SELECT outbox_events_begin()`)
}
