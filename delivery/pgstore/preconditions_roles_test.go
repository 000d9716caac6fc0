package pgstore_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestStrictOrderNeedsProducersThatCannotDrawBeforehand(t *testing.T) {
	t.Parallel()
	const mayStillInsert = `SELECT has_column_privilege(r, 'events', 'payload', 'INSERT') AND NOT has_table_privilege(r, 'events', 'INSERT')
		AND NOT has_column_privilege(r, 'events', 'sequence', 'INSERT') FROM CAST(to_regrole('{app}') AS oid) AS r`
	proveAll(t, "", map[string]breach{
		"table": {
			how:      `GRANT SELECT, INSERT ON events TO {app}`,
			violates: []string{"grants"}, says: []string{"{app} holds INSERT on table public.events:"}, then: mayStillInsert,
		},
		"everybody": {
			how:      `GRANT INSERT ON events TO PUBLIC`,
			violates: []string{"grants", "writes"}, says: []string{"PUBLIC holds INSERT on table public.events:"},
		},
		"column": {
			how:      `GRANT INSERT (sequence, payload) ON events TO {app}`,
			violates: []string{"grants"}, says: []string{"{app} holds INSERT (sequence) on table public.events:"}, then: mayStillInsert,
		},
		"sequence": {
			how:      `GRANT SELECT, USAGE ON SEQUENCE events_sequence_seq TO {app}`,
			violates: []string{"grants"}, says: []string{"{app} holds USAGE on sequence public.events_sequence_seq:"},
		},
		"all of it": {
			how:      `GRANT ALL ON SEQUENCE events_sequence_seq TO {app}; GRANT ALL ON events TO {app}`,
			violates: []string{"grants"}, then: mayStillInsert,
			says: []string{"{app} holds USAGE, UPDATE on sequence public.events_sequence_seq, INSERT on table public.events:"},
		},
		"passed on": {
			how:  `GRANT INSERT ON events TO {app} WITH GRANT OPTION; SET ROLE {app}; GRANT INSERT ON events TO {second}; RESET ROLE`,
			says: []string{"{app} holds INSERT on table public.events:"}, violates: []string{"grants", "grants"}, then: mayStillInsert,
		},
	})
	t.Run("what is sound", func(t *testing.T) {
		t.Parallel()
		s := newStrict(t, pgtest.Migrated(t, 4))
		s.exec(t, `GRANT INSERT (payload, stream_id), SELECT, REFERENCES ON events TO {app};
			GRANT SELECT ON SEQUENCE events_sequence_seq TO {app}; GRANT EXECUTE ON FUNCTION outbox_append TO {app};
			CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
			CREATE TRIGGER seen BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION seen()`)
		s.wants(t)
	})
}

func TestStrictOrderWarns(t *testing.T) {
	t.Parallel()
	proveAll(t, "", map[string]breach{
		"relay that writes": {
			how:      `GRANT UPDATE (payload), DELETE ON events TO {relay}`,
			violates: []string{"writes"}, says: []string{"DELETE, UPDATE on public.events)"},
		},
		"relay that is a producer": {
			how:      `GRANT INSERT (payload) ON events TO {app}; GRANT {app} TO {relay}`,
			violates: []string{"writes"}, says: []string{"INSERT on public.events through {app})"},
		},
		"statistics": {how: `REVOKE pg_read_all_stats FROM {relay}`, violates: []string{"statistics"}, says: []string{"{relay}"}},
		"idle producers": {
			how:      `ALTER DATABASE {database} RESET idle_in_transaction_session_timeout`,
			violates: []string{"idle"}, says: []string{"idle_in_transaction_session_timeout is 0"},
		},
	})
	t.Run("writes everything", func(t *testing.T) {
		t.Parallel()
		s := newStrict(t, pgtest.Server(t, localpg.Config{}).URL()) // all databases of a server share such a grant
		s.exec(t, `CREATE TABLE events (sequence bigint GENERATED ALWAYS AS IDENTITY)`)
		breach{
			how:      `GRANT pg_write_all_data TO {app}; GRANT pg_write_all_data TO {relay}`,
			violates: []string{"write_all", "write_all", "writes"}, says: []string{"{app} holds pg_write_all_data:"},
		}.prove(t, s)
	})
	t.Run("mending gives the relay nothing", func(t *testing.T) {
		t.Parallel()
		s := newStrict(t, pgtest.Migrated(t, 4))
		s.exec(t, `GRANT INSERT ON events TO {relay}`)
		if found := s.wants(t, "grants", "writes"); strings.Contains(found[0].Cure, "GRANT") {
			t.Errorf("it says: %s", found[0])
		}
	})
	t.Run("owner", func(t *testing.T) {
		t.Parallel()
		s := newStrict(t, pgtest.Migrated(t, 4))
		s.exec(t, `ALTER TABLE events OWNER TO {relay}`)
		s.wants(t)
	})
	t.Run("idle relay", func(t *testing.T) {
		t.Parallel()
		s := newStrict(t, pgtest.Migrated(t, 4))
		s.exec(t, `ALTER ROLE {relay} SET idle_in_transaction_session_timeout = 0`)
		s.wants(t)
	})
}

// What the planner chooses does not decide which columns are read, and a sequence may belong to any column, also one
// that an application added.
func TestSequencesAreComparedUnderAnyPlan(t *testing.T) {
	t.Parallel()
	s := newStrict(t, pgtest.Migrated(t, 4))
	s.exec(t, `ALTER TABLE events ADD COLUMN code text DEFAULT '99999999999999999999', ADD COLUMN gone boolean;
		CREATE SEQUENCE codes_seq OWNED BY events.code; CREATE SEQUENCE gone_seq OWNED BY events.gone; SELECT outbox_append('a', 'b', '1') FROM generate_series(1, 3)`)
	for _, setting := range []string{"enable_indexscan", "enable_nestloop", "enable_hashjoin", "enable_mergejoin", "enable_seqscan"} {
		s.relay = s.database + "&enable_bitmapscan=off&" + setting + "=off"
		s.wants(t)
	}
	s.exec(t, `SELECT setval('events_sequence_seq', 1)`)
	s.wants(t, "behind")
}
