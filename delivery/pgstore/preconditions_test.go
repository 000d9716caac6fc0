package pgstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// strict is a database in which nothing forbids strict order and nothing is to
// be warned of, as a relay without privileges sees it.
type strict struct {
	database        string // as superuser
	admin           *pgx.Conn
	relay           string // the database's address as the relay
	names           *strings.Replacer
	relation        pgstore.Relation
	relayRole, role string
}

// newStrict makes roles whose names have to be quoted.
func newStrict(t *testing.T, database string) *strict {
	t.Helper()
	ctx := context.Background() // cleanups need it, too
	admin, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(ctx) })
	name := func(kind string) string { return "The " + kind + " " + strings.ToLower(rand.Text()) }
	s := &strict{database: database, admin: admin, relayRole: name("relay"), role: name("app")}
	relay := pgx.Identifier{s.relayRole}.Sanitize()
	app := pgx.Identifier{s.role}.Sanitize()
	second := pgx.Identifier{name("second")}.Sanitize()
	s.names = strings.NewReplacer("{relay}", relay, "{app}", app, "{second}", second,
		"{database}", pgx.Identifier{admin.Config().Database}.Sanitize())
	s.exec(t, `CREATE ROLE {relay} LOGIN PASSWORD 'relay'; CREATE ROLE {app}; CREATE ROLE {second}`)
	t.Cleanup(func() {
		s.exec(t, `DROP OWNED BY {relay}, {app}, {second} CASCADE; DROP ROLE {relay}, {app}, {second}`)
	})
	s.exec(t, `GRANT pg_read_all_stats TO {relay}`)
	s.exec(t, `ALTER DATABASE {database} SET idle_in_transaction_session_timeout = '60s'`)
	address, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(s.relayRole, "relay")
	s.relay = address.String()
	return s
}

func (s *strict) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := s.admin.Exec(context.Background(), s.names.Replace(sql)); err != nil {
		t.Errorf("%s: %v", s.names.Replace(sql), err)
	}
}

// check asks in a new session of the relay.
func (s *strict) check(t *testing.T) []pgstore.Violation {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.relay)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	found, err := pgstore.CheckStrict(t.Context(), conn, "public", s.relation)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wants demands exactly these preconditions as violated.
func (s *strict) wants(t *testing.T, names ...string) []pgstore.Violation {
	t.Helper()
	found := s.check(t)
	var got []string
	for _, v := range found {
		got = append(got, v.Precondition)
	}
	if !slices.Equal(got, names) {
		t.Fatalf("violated: %v, want %q", found, names)
	}
	return found
}

// breach is a way to violate preconditions.
type breach struct {
	how      string   // SQL
	violates []string // in order
	says     []string // parts of the first one's detail
	then     string   // a query that must give true after the cure
}

// prove demands that the breach is found and its cures mend it.
func (b breach) prove(t *testing.T, s *strict) {
	t.Helper()
	s.wants(t)
	s.exec(t, b.how)
	found := s.wants(t, b.violates...)
	for _, text := range b.says {
		if !strings.Contains(found[0].Detail, s.names.Replace(text)) {
			t.Errorf("%q does not say %q", found[0].Detail, s.names.Replace(text))
		}
	}
	for _, v := range found {
		warning := slices.Contains([]string{"write_all", "writes", "statistics", "idle", "prepared"}, v.Precondition)
		sql, _, escape := strings.Cut(v.Cure, "; or ")
		wayRound := !warning && v.Precondition != "durable"
		if v.Warning != warning || strings.HasSuffix(v.Cure, "; or run with --ordering stream") != wayRound || escape != wayRound {
			t.Errorf("%+v: a warning asks for no other ordering, a violation offers it", v)
		}
		s.exec(t, sql)
	}
	s.wants(t)
	if b.then == "" {
		return
	}
	var holds bool
	if err := s.admin.QueryRow(t.Context(), s.names.Replace(b.then)).Scan(&holds); err != nil || !holds {
		t.Errorf("after the cure %s is %t: %v", s.names.Replace(b.then), holds, err)
	}
}

// proveAll proves each breach in a database of its own.
func proveAll(t *testing.T, prepare string, breaches map[string]breach) {
	t.Helper()
	for name, b := range breaches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStrict(t, pgtest.Migrated(t, 4))
			if prepare != "" {
				s.exec(t, prepare)
				s.relation.Name = "parts"
			}
			b.prove(t, s)
		})
	}
}

func TestStrictOrderNeedsSequencesDrawnInTheInsert(t *testing.T) {
	t.Parallel()
	proveAll(t, "", map[string]breach{
		"unlogged": {how: `ALTER TABLE events SET UNLOGGED`, violates: []string{"table"}, says: []string{"public.events is unlogged"}},
		"identity by default": {
			how:      `ALTER TABLE events ALTER COLUMN sequence SET GENERATED BY DEFAULT`,
			violates: []string{"identity"}, says: []string{"public.events.sequence is GENERATED BY DEFAULT"},
		},
		"no identity": {
			how:      `SELECT outbox_append('s', 't', '{}'); ALTER TABLE events ALTER COLUMN sequence DROP IDENTITY`,
			violates: []string{"identity"}, says: []string{"public.events.sequence is no identity column"},
			then: `SELECT outbox_append('s', 't', '{}') = 2`,
		},
		"serial": {
			how: `ALTER TABLE events ALTER COLUMN sequence DROP IDENTITY; CREATE SEQUENCE own;
				ALTER TABLE events ALTER COLUMN sequence SET DEFAULT nextval('own')`,
			violates: []string{"identity"}, then: `SELECT outbox_append('s', 't', '{}') = 1`,
		},
		"cache": {
			how:      `ALTER SEQUENCE events_sequence_seq CACHE 10`,
			violates: []string{"sequence"}, says: []string{"public.events_sequence_seq has cache 10, increment 1:", "restart the producers"},
		},
		"increment": {how: `ALTER SEQUENCE events_sequence_seq INCREMENT 2`, violates: []string{"sequence"}, says: []string{"increment 2:"}},
		"cycle":     {how: `ALTER SEQUENCE events_sequence_seq CYCLE`, violates: []string{"sequence"}, says: []string{"increment 1, cycle:"}},
		"foreign child": {
			how: `CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER far FOREIGN DATA WRAPPER nothing;
				CREATE FOREIGN TABLE "Far away" () INHERITS (events) SERVER far`,
			violates: []string{"table"}, says: []string{`public."Far away", a part of public.events, is a foreign table`},
		},
		"rule": {
			how: `CREATE RULE "A rule" AS ON INSERT TO events DO INSTEAD NOTHING;
				CREATE RULE harmless AS ON DELETE TO events DO INSTEAD NOTHING;
				CREATE RULE addition AS ON INSERT TO events DO ALSO NOTIFY x;
				CREATE RULE "off" AS ON INSERT TO events DO INSTEAD NOTHING; ALTER TABLE events DISABLE RULE "off"`,
			violates: []string{"rule"}, says: []string{`rule "A rule" of public.events`},
		},
		"isolation of the role": {
			how:      `ALTER ROLE {relay} SET default_transaction_isolation = 'repeatable read'`,
			violates: []string{"isolation"}, says: []string{"'repeatable read'", "set by: user"},
		},
		"isolation of the database": {
			how:      `ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'`,
			violates: []string{"isolation"}, says: []string{"'serializable'", "set by: database"},
		},
	})
}

// release says whether the server's major release lies within the range.
func release(t *testing.T, from, to int) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var within bool
	err = conn.QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int / 10000 BETWEEN $1 AND $2`, from, to).Scan(&within)
	if err != nil {
		t.Fatal(err)
	}
	return within
}

func TestStrictOrderNeedsALoggedSequence(t *testing.T) {
	t.Parallel()
	if !release(t, 15, 99) {
		t.Skip("sequences cannot be unlogged before PostgreSQL 15")
	}
	proveAll(t, "", map[string]breach{
		"": {how: `ALTER SEQUENCE events_sequence_seq SET UNLOGGED`, violates: []string{"sequence"}, says: []string{"is unlogged"}},
	})
}

// Before PostgreSQL 17 partitions do not share their parent's identity, and may
// be given others.
func TestStrictOrderOfAPartitionedTable(t *testing.T) {
	t.Parallel()
	const parts = `CREATE TABLE parts (sequence bigint GENERATED ALWAYS AS IDENTITY, payload bytea) PARTITION BY RANGE (sequence);
		CREATE TABLE "Part 1" PARTITION OF parts FOR VALUES FROM (1) TO (100);
		CREATE TABLE part_2 PARTITION OF parts FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (sequence);
		CREATE TABLE leaf PARTITION OF part_2 FOR VALUES FROM (100) TO (150)`
	proveAll(t, parts, map[string]breach{
		"parent's sequence": {
			how:      `ALTER SEQUENCE parts_sequence_seq CACHE 2`,
			violates: []string{"sequence"}, says: []string{"public.parts_sequence_seq"},
		},
		"grant on a partition": {
			how:      `GRANT INSERT ON leaf TO {app}; GRANT INSERT (sequence) ON "Part 1" TO {app}`,
			violates: []string{"grants"}, says: []string{`INSERT on table public.leaf, INSERT (sequence) on table public."Part 1":`},
		},
		"owner of a partition": {
			how:      `ALTER TABLE leaf OWNER TO {app}`,
			violates: []string{"grants"}, says: []string{"{app} holds INSERT on table public.leaf"},
		},
		"unlogged partition": {how: `ALTER TABLE "Part 1" SET UNLOGGED`, violates: []string{"table"}, says: []string{`public."Part 1"`}},
		"foreign partition": {
			how: `CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER far FOREIGN DATA WRAPPER nothing;
				CREATE FOREIGN TABLE away PARTITION OF parts FOR VALUES FROM (200) TO (300) SERVER far`,
			violates: []string{"table"}, says: []string{"public.away, a part of public.parts, is a foreign table"},
		},
		"rule on a partition": {
			how:      `CREATE RULE r AS ON INSERT TO leaf DO INSTEAD INSERT INTO "Part 1" VALUES (NEW.*)`,
			violates: []string{"rule"}, says: []string{"rule r of public.leaf"},
		},
	})
	if !release(t, 1, 16) {
		return
	}
	proveAll(t, parts, map[string]breach{
		"default of its own": {
			how:      `CREATE SEQUENCE own; ALTER TABLE leaf ALTER COLUMN sequence SET DEFAULT nextval('own')`,
			violates: []string{"identity"}, says: []string{"public.leaf.sequence"},
		},
		"identity of its own": {
			how:      `ALTER TABLE leaf ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY`,
			violates: []string{"identity"}, says: []string{"public.leaf.sequence"},
		},
	})
	t.Run("default from the parent's sequence", func(t *testing.T) {
		t.Parallel()
		s := newStrict(t, pgtest.Migrated(t, 4))
		s.exec(t, parts)
		s.exec(t, `ALTER TABLE leaf ALTER COLUMN sequence SET DEFAULT nextval('parts_sequence_seq')`)
		s.relation.Name = "parts"
		s.wants(t)
	})
}

func TestStrictOrderNeedsATableWithSequences(t *testing.T) {
	t.Parallel()
	s := newStrict(t, pgtest.Migrated(t, 4))
	s.exec(t, `CREATE VIEW seen AS SELECT * FROM events; CREATE TABLE bare (id bigint); CREATE SCHEMA "Own";
		CREATE TABLE "Own".events (sequence bigint GENERATED BY DEFAULT AS IDENTITY); GRANT USAGE ON SCHEMA "Own" TO {relay}`)
	s.relation.Name = "seen"
	if found := s.wants(t, "table"); !strings.Contains(found[0].String(), "public.seen is a view") ||
		!strings.Contains(found[0].String(), "migrate up --events-relation; or run with --ordering stream") {
		t.Errorf("it says: %s", found[0])
	}
	s.relation = pgstore.Relation{Schema: "Own"}
	if found := s.wants(t, "identity"); !strings.Contains(found[0].Detail, `"Own".events.sequence`) {
		t.Errorf("it says: %s", found[0])
	}
	for _, name := range []string{"nowhere", "bare"} {
		_, err := pgstore.CheckStrict(t.Context(), s.admin, "public", pgstore.Relation{Name: name})
		if !errors.Is(err, pgstore.ErrEventsRelation) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStrictOrderRefusesReplicatedEvents(t *testing.T) {
	t.Parallel()
	source := newStrict(t, pgtest.Migrated(t, 4))
	source.exec(t, `CREATE PUBLICATION everything FOR ALL TABLES`)
	s := newStrict(t, pgtest.Migrated(t, 4))
	t.Cleanup(func() { s.exec(t, `DROP SUBSCRIPTION IF EXISTS "A copy"`) })
	breach{
		how: `CREATE SUBSCRIPTION "A copy" CONNECTION '` + source.database + `' PUBLICATION everything
			WITH (create_slot = false, slot_name = NONE, enabled = false)`,
		violates: []string{"subscription"}, says: []string{`subscription "A copy" writes into public.events:`},
	}.prove(t, s)
}

func TestWhatIsQueuedMustBeDurable(t *testing.T) {
	t.Parallel()
	proveAll(t, "", map[string]breach{
		"disabled":   {how: `ALTER TABLE outbox_parked DISABLE TRIGGER outbox_durable`, violates: []string{"durable"}, says: []string{"public.outbox_parked has no trigger"}},
		"not always": {how: `ALTER TABLE outbox_ready ENABLE TRIGGER outbox_durable`, violates: []string{"durable"}, says: []string{"public.outbox_ready has no trigger"}},
		"both dropped": {
			how:      `DROP TRIGGER outbox_durable ON outbox_ready; DROP TRIGGER outbox_durable ON outbox_parked`,
			violates: []string{"durable", "durable"}, says: []string{"public.outbox_parked"},
		},
	})
}

// What is read must be durable whatever the ordering; the rest is of the watermark.
func TestTheOrderOfStreamsNeedsDurabilityAlone(t *testing.T) {
	t.Parallel()
	s := newStrict(t, pgtest.Migrated(t, 4))
	s.exec(t, `ALTER SEQUENCE events_sequence_seq CACHE 10`)
	require := func(o delivery.Ordering) error {
		return pgstore.RequireOrder(t.Context(), s.admin, "public", pgstore.Relation{}, o)
	}
	if err := require(delivery.OrderPartition); !errors.Is(err, pgstore.ErrStrict) || !strings.Contains(err.Error(), "cache 10") {
		t.Errorf("of partitions: %v", err)
	}
	if err := require(delivery.OrderStream); err != nil {
		t.Errorf("of streams: %v", err)
	}
	s.exec(t, `ALTER TABLE outbox_ready DISABLE TRIGGER outbox_durable`)
	if err := require(delivery.OrderStream); !errors.Is(err, pgstore.ErrStrict) || !strings.Contains(err.Error(), "ENABLE ALWAYS TRIGGER") || strings.Contains(err.Error(), "cache 10") {
		t.Errorf("of streams whose events are not durable: %v", err)
	}
}

func TestStrictOrderNeedsReadCommittedConnections(t *testing.T) {
	t.Parallel()
	s := newStrict(t, pgtest.Migrated(t, 4))
	plain := s.relay
	s.relay += "&default_transaction_isolation=serializable"
	if found := s.wants(t, "isolation"); !strings.Contains(found[0].Cure, "--database-url") {
		t.Errorf("it says: %s", found[0])
	}
	s.relay = plain
	s.wants(t)
}

func TestStrictOrderNeedsAPrimary(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, localpg.Config{})
	admin, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`CREATE TABLE events (sequence bigint GENERATED ALWAYS AS IDENTITY)`,
		`ALTER SYSTEM SET idle_in_transaction_session_timeout = '60s'`,
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(server.DataDir(), "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &strict{relay: server.URL()}
	if found := s.wants(t, "primary"); !strings.Contains(found[0].Cure, "target_session_attrs=read-write") {
		t.Errorf("it says: %s", found[0])
	}
	if s.admin, err = pgx.Connect(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	s.names = strings.NewReplacer()
	pgtest.Promote(t, server.URL())
	s.wants(t)
	if err := s.admin.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
