package deployment_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

const everything = "DELETE INSERT SELECT UPDATE"

// Who may do what to a table is written down here a second time, by hand.
var held = map[string]map[string]string{
	"consumer": {
		"inbox_callers": everything, "inbox_calls": everything, "inbox_consumers": everything, "inbox_lanes": everything, "inbox_malformed": everything, "inbox_parked": everything,
		"inbox_readers": everything, "inbox_records": everything, "inbox_senders": everything, "inbox_streams": everything,
		"inbox_schema_version": "SELECT", "inbox_mail": "SELECT",
	},
	"producer": {"outbox_prices": "SELECT"},
	"monitor": {
		"events": "SELECT(recorded_at) SELECT(sequence)", "events_sequence_seq": "SELECT",
		"outbox": "SELECT", "outbox_ready": "SELECT", "outbox_parked": "SELECT", "outbox_messages": "SELECT",
		"outbox_deliveries": "SELECT", "outbox_partitions": "SELECT", "outbox_workers": "SELECT", "outbox_throughput": "SELECT",
		"outbox_audit": "SELECT", "outbox_settings": "SELECT", "outbox_watermark": "SELECT", "outbox_schema_version": "SELECT",
		"outbox_replays": "SELECT", "outbox_ownership": "SELECT", "outbox_types": "SELECT",
	},
	"operator": {
		"events": "SELECT(audit_only) SELECT(event_id) SELECT(event_type) SELECT(metadata) SELECT(occurred_at) SELECT(recorded_at) " +
			"SELECT(routing_key) SELECT(sequence) SELECT(stream_id) SELECT(stream_version) SELECT(tenant_id) SELECT(topic)",
		"events_sequence_seq": "SELECT",
		"outbox":              "DELETE INSERT SELECT UPDATE", "outbox_ready": "SELECT", "outbox_parked": "SELECT", "outbox_messages": "SELECT",
		"outbox_deliveries": "INSERT SELECT", "outbox_partitions": "SELECT UPDATE(paused_at) UPDATE(updated_at)",
		"outbox_workers": "SELECT UPDATE(drain_requested_at)", "outbox_throughput": "INSERT SELECT UPDATE", "outbox_audit": "INSERT SELECT",
		"outbox_settings": "SELECT", "outbox_watermark": "SELECT", "outbox_schema_version": "SELECT",
		"outbox_replays": "INSERT SELECT UPDATE", "outbox_replay_sequences": "DELETE INSERT SELECT",
		"outbox_ownership": "SELECT", "outbox_types": "DELETE INSERT SELECT UPDATE",
	},
	"worker": {
		"events": "SELECT", "events_sequence_seq": "SELECT", "outbox_settings": "SELECT UPDATE(generation) UPDATE(regressed)", "outbox_schema_version": "SELECT",
		"outbox": "DELETE INSERT SELECT UPDATE", "outbox_ready": "DELETE INSERT SELECT UPDATE",
		"outbox_parked": "DELETE INSERT SELECT UPDATE", "outbox_deliveries": "DELETE INSERT SELECT UPDATE",
		"outbox_workers": "DELETE INSERT SELECT UPDATE", "outbox_throughput": "DELETE INSERT SELECT UPDATE",
		"outbox_partitions": "SELECT UPDATE", "outbox_former_partitions": "SELECT UPDATE", "outbox_watermark": "SELECT UPDATE",
		"outbox_dedupe_keys": "DELETE SELECT UPDATE", "outbox_audit": "INSERT", "outbox_ownership": "DELETE INSERT SELECT",
	},
}

// rightsHeld lists every right of a role on tables, views, sequences and columns of the schema, whoever it comes through.
const rightsHeld = `
SELECT c.relname, string_agg(r.right, ' ' ORDER BY r.right COLLATE "C")
  FROM pg_class AS c,
       LATERAL (
         SELECT p AS right FROM unnest(ARRAY['SELECT','INSERT','UPDATE','DELETE','TRUNCATE','REFERENCES','TRIGGER']) AS p
          WHERE c.relkind IN ('r','p','v') AND has_table_privilege($1, c.oid, p)
          UNION ALL
         SELECT p FROM unnest(ARRAY['USAGE','SELECT','UPDATE']) AS p
          WHERE c.relkind = 'S' AND has_sequence_privilege($1, c.oid, p)
          UNION ALL
         SELECT p || '(' || a.attname || ')' FROM pg_attribute AS a, unnest(ARRAY['SELECT','INSERT','UPDATE','REFERENCES']) AS p
          WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r','p','v')
            AND has_column_privilege($1, c.oid, a.attnum, p) AND NOT has_table_privilege($1, c.oid, p)) AS r
 WHERE c.relnamespace = 'public'::regnamespace
 GROUP BY 1`

// functionsHeld are those that a role may run and everybody may not.
var functionsHeld = map[string]string{
	"consumer": "inbox_begin inbox_claim inbox_decide inbox_done inbox_failed inbox_next inbox_park inbox_parse inbox_receive inbox_record inbox_unpark",
	"producer": "outbox_append outbox_append_adopted outbox_append_batch outbox_append_bytes outbox_append_one outbox_append_one_bytes outbox_without_enqueue",
	"operator": "outbox_schema_problem",
	"app":      "inbox_theirs", // its own
	"PUBLIC":   "outbox_hash_partition outbox_partition outbox_state outbox_xxhash64",
}

// granted lists the functions that a role, or everybody, was granted.
const granted = `SELECT coalesce(string_agg(DISTINCT p.proname, ' ' ORDER BY p.proname), '') FROM pg_proc AS p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
	WHERE p.pronamespace = 'public'::regnamespace AND a.grantee = coalesce(to_regrole($1)::oid, 0)`

// What each role may do is what is written down here and no more, also beside tables and functions of others that have such names, and
// where default privileges give everything to an application's role.
func TestRolesHoldNothingElse(t *testing.T) {
	t.Parallel()
	r := newRoles(t, "public", `CREATE ROLE app; CREATE ROLE postrider_migrator; CREATE ROLE postrider_consumer;
		GRANT USAGE, CREATE ON SCHEMA public TO app; GRANT postrider_migrator TO CURRENT_USER;
		ALTER DEFAULT PRIVILEGES FOR ROLE postrider_migrator GRANT EXECUTE ON FUNCTIONS TO app;
		ALTER DEFAULT PRIVILEGES FOR ROLE postrider_migrator GRANT ALL ON TABLES TO app, PUBLIC;
		ALTER DEFAULT PRIVILEGES FOR ROLE postrider_migrator GRANT ALL ON SEQUENCES TO app;
		SET ROLE app; CREATE TABLE public.inbox_mail (secret text); CREATE TABLE public.inbox_records_old (secret text);
		CREATE FUNCTION public.inbox_theirs() RETURNS int LANGUAGE sql AS 'SELECT 1'; RESET ROLE; REVOKE CREATE ON SCHEMA public FROM app;
		REVOKE ALL ON FUNCTION public.inbox_theirs FROM PUBLIC; GRANT SELECT ON public.inbox_mail TO postrider_consumer;
		CREATE TABLE public.outbox_prices (price int); CREATE ROLE postrider_producer; GRANT SELECT ON public.outbox_prices TO postrider_producer;
		CREATE FUNCTION public.outbox_append(int) RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION public.inbox_begin(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
		REVOKE ALL ON FUNCTION public.outbox_append(int), public.inbox_begin(int) FROM PUBLIC`)
	pool := pgtest.Pool(t, r.superuser)
	if _, err := pool.Exec(t.Context(), `CREATE TABLE public.inbox_of_ours (secret text); ALTER TABLE public.inbox_of_ours OWNER TO postrider_migrator`); err != nil {
		t.Fatal(err)
	}
	r.script(t)
	for _, role := range []string{"consumer", "producer", "monitor", "operator", "worker", "PUBLIC", "app"} {
		name := role
		if role != "PUBLIC" && role != "app" {
			name = "postrider_" + role
		}
		var got string
		if err := pool.QueryRow(t.Context(), granted, name).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != functionsHeld[role] {
			t.Errorf("%s may run %q, want %q", name, got, functionsHeld[role])
		}
	}
	wantHeld(t, pool)
	mustPostrider(t, r.environment(t, "migrator"), "events", "split", "--yes", "--reason=test")
	var app string
	if err := pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(DISTINCT c.relname, ' '), '') FROM pg_class AS c, aclexplode(c.relacl) AS a
		WHERE c.relnamespace = 'public'::regnamespace AND a.grantee IN (0, 'app'::regrole) AND c.relowner <> 'app'::regrole`).Scan(&app); err != nil || app != "" {
		t.Errorf("an application's role, or everybody, has rights on %s, %v", app, err)
	}
	refused := map[string][]string{
		"consumer": {`SELECT * FROM events`, `SELECT * FROM outbox`, `TRUNCATE inbox_records`, `CREATE TABLE mine ()`, `SELECT outbox_append('a', 'b', '1')`},
		"producer": {
			`SELECT * FROM events`, `SELECT * FROM outbox_types`, `SELECT nextval('events_sequence_seq')`, `CREATE TABLE mine ()`,
			`INSERT INTO outbox (global_sequence, partition_key, stream_id) VALUES (1, 1, 'a')`,
		},
		"worker": {
			`INSERT INTO events (stream_id) VALUES ('a')`, `UPDATE outbox_settings SET partition_count = 1`,
			`SELECT outbox_append('a', 'b', '1')`, `SELECT * FROM outbox_audit`,
		},
		"monitor": {`SELECT payload FROM events`, `UPDATE outbox_partitions SET paused_at = now()`, `SELECT outbox_append('a', 'b', '1')`},
		"operator": {
			`SELECT payload FROM events`, `DELETE FROM outbox_audit`, `UPDATE outbox_partitions SET lease_owner = NULL`,
			`SELECT outbox_append('a', 'b', '1')`,
		},
		"migrator": {`CREATE ROLE more`, `CREATE DATABASE more`, `SELECT pg_read_file('PG_VERSION')`},
	}
	for role, statements := range refused {
		for _, sql := range statements {
			var answer *pgconn.PgError
			if err := statement(t, r.url(t, role), sql); !errors.As(err, &answer) || answer.Code != "42501" {
				t.Errorf("postrider_%s: %s: %v, want permission denied", role, sql, err)
			}
		}
	}
}

func union[V any](a, b map[string]V) map[string]bool {
	all := map[string]bool{}
	for _, m := range []map[string]V{a, b} {
		for k := range m {
			all[k] = true
		}
	}
	return all
}

// wantHeld compares what each role may do to each table.
func wantHeld(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for role, want := range held {
		rows, err := pool.Query(t.Context(), rightsHeld, "postrider_"+role)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for rows.Next() {
			var relation, rights string
			if err := rows.Scan(&relation, &rights); err != nil {
				t.Fatal(err)
			}
			got[relation] = rights
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		for relation := range union(got, want) {
			if got[relation] != want[relation] {
				t.Errorf("postrider_%s holds %q on %s, want %q", role, got[relation], relation, want[relation])
			}
		}
	}
}
