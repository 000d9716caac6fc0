package deployment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// roles are a server whose only roles, besides its superuser, are those of deploy/sql/roles.sql.
type roles struct{ superuser, schema string }

func newRoles(t *testing.T, schema string, before ...string) roles {
	t.Helper()
	r := roles{superuser: pgtest.Server(t, localpg.Config{}).URL(), schema: schema}
	for _, sql := range before {
		mustStatement(t, r.superuser, sql)
	}
	r.script(t)
	for _, name := range []string{"migrator", "producer", "worker", "monitor", "operator", "consumer"} {
		mustStatement(t, r.superuser, fmt.Sprintf(`ALTER ROLE postrider_%s LOGIN PASSWORD 'secret'`, name))
	}
	mustPostrider(t, r.environment(t, "migrator"), "migrate", "up", "--partitions=4", "--inbox")
	r.script(t)
	r.script(t) // repeating it changes nothing
	return r
}

func (r roles) script(t *testing.T) {
	t.Helper()
	mustStatement(t, r.superuser, fmt.Sprintf("SET postrider.schema = '%s';", r.schema)+read(t, "deploy/sql/roles.sql"))
}

// own is the address for statements of the test itself, which others may have planted functions for.
func (r roles) own(url string) string { return url + "&search_path=pg_catalog" }

// url is the database as this role sees it.
func (r roles) url(t *testing.T, role string) string {
	t.Helper()
	address, err := url.Parse(r.superuser)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword("postrider_"+role, "secret")
	return address.String()
}

func (r roles) environment(t *testing.T, role string) []string {
	t.Helper()
	return []string{"DATABASE_URL=" + r.url(t, role), "POSTRIDER_SCHEMA=" + r.schema}
}

// Each role does its work with the real program.
func TestRolesSuffice(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for _, schema := range []string{"public", "Shop"} { //nolint:paralleltest // one at a time
		t.Run(schema, func(t *testing.T) { rolesSuffice(t, newRoles(t, schema)) })
	}
}

func rolesSuffice(t *testing.T, r roles) {
	t.Helper()
	broker := natstest.Start(t, 1)
	broker.Stream(t, 1)
	with := func(role string) []string { return append(r.environment(t, role), "NATS_URL="+broker.URL()) }
	appendEvent := func(stream, payload string) {
		t.Helper()
		const sql = `SELECT %q.outbox_append('%s', 'thing.done', to_jsonb(%s), dedupe_key => gen_random_uuid()::text)`
		mustStatement(t, r.own(r.url(t, "producer")), fmt.Sprintf(sql, r.schema, stream, payload))
	}
	worker := clustertest.Launch(t, "worker", with("worker"), "run", "--http-addr=127.0.0.1:0")
	worker.WaitLog(t, "msg=monitor")
	appendEvent("flows", `'small'::text`)
	const tooLarge = `repeat('x', 2000000)`
	for _, stream := range []string{"requeue", "skip", "discard"} {
		appendEvent(stream, tooLarge)
		appendEvent(stream, `'behind'::text`)
	}
	count := func(want, sql string) {
		t.Helper()
		pool := pgtest.Pool(t, r.own(r.superuser))
		clustertest.Until(t, sql+" gives "+want, func(ctx context.Context) (bool, error) {
			var got string
			err := pool.QueryRow(ctx, strings.ReplaceAll(sql, "{schema}", `"`+r.schema+`"`)).Scan(&got)
			return got == want, err
		}, worker.Stderr)
	}
	count("3", `SELECT count(*)::text FROM {schema}.outbox_messages WHERE state = 'dead'`)
	count("1", `SELECT count(*)::text FROM {schema}.outbox_messages WHERE state = 'published'`)
	if text := metricsOf(t, worker); !strings.Contains(text, "outbox_held_xmin_transactions ") {
		t.Error("the worker does not see what holds vacuum back")
	}

	for _, command := range [][]string{{"status"}, {"workers"}, {"partitions", "list"}, {"partitions", "history"}, {"replay", "list"}} {
		mustPostrider(t, r.environment(t, "monitor"), command...)
	}
	if text := mustPostrider(t, r.environment(t, "monitor"), "status", "--json"); strings.Contains(text, `"unknown"`) {
		t.Errorf("the monitor lacks a right: %s", text)
	}
	for _, way := range []string{"requeue", "skip", "discard"} {
		mustPostrider(t, r.environment(t, "operator"), "dead", way, "--stream="+way, "--reason=test", "--yes")
	}
	operatorSuffices(t, r)
	mustPostrider(t, r.environment(t, "monitor"), "types", "list")
	count("1", `SELECT count(*)::text FROM {schema}.outbox_messages WHERE state = 'dead'`) // requeued, and dead again
	mustPostrider(t, with("worker"), "doctor")
	for _, command := range [][]string{
		{"migrate", "status"}, {"migrate", "up"}, {"partitions", "sync"}, {"partitions", "resize", "8", "--yes", "--reason=test"},
	} {
		mustPostrider(t, with("migrator"), command...)
	}
	appendEvent("after", `'small'::text`)
	count("4", `SELECT count(*)::text FROM {schema}.outbox_messages WHERE state = 'published'`)
	sweepSuffices(t, r)
	monitorSuffices(t, r, with("worker"))
	worker.Signal(t, syscall.SIGTERM)
	if status := worker.Exit(t); status != 0 {
		t.Errorf("the worker ended with %d", status)
	}
	for _, complaint := range []string{"permission denied", "level=ERROR"} {
		if strings.Contains(worker.Stderr(), complaint) {
			t.Errorf("the worker complains: %s", worker.Stderr())
		}
	}
}

// operatorSuffices has the operator's role do what operators do.
func operatorSuffices(t *testing.T, r roles) {
	t.Helper()
	rules := "--json-schema=" + write(t, "schema.json", checkedSchema)
	for _, command := range [][]string{
		{"messages", "list"},
		{"messages", "show", "1"},
		{"dead", "list"},
		{"status"},
		{"partitions", "pause", "0", "--reason=test"},
		{"partitions", "resume", "0", "--reason=test"},
		{"replay", "--all", "--yes", "--reason=test"},
		{"replay", "--kind=retry", "--all", "--prepare", "--yes"},
		{"replay", "cancel", "2", "--reason=test"},
		{"gaps", "detect", "--no-broker"},
		{"types", "set", "thing.told", rules, "--check", "--reason=test"},
		{"types", "set", "thing.done", rules, "--check"},
		{"types", "set", "thing.done", rules},
		{"types", "drop", "thing.told", "--reason=test"},
		{"asyncapi"},
	} {
		mustPostrider(t, r.environment(t, "operator"), command...)
	}
}

// sweepSuffices has the worker's role remove what is over, which workers do every ten minutes.
func sweepSuffices(t *testing.T, r roles) {
	t.Helper()
	pool := pgtest.Pool(t, r.own(r.url(t, "worker")))
	store, err := delivery.NewStore(t.Context(), pool, r.schema, delivery.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	sweeper, err := delivery.NewSweeper(store, pool, delivery.RetentionConfig{History: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sweeper.Sweep(t.Context()); err != nil {
		t.Errorf("the worker may not sweep: %v", err)
	}
}

// monitorSuffices starts a second worker, whose monitor shows everything, and drains the first.
func monitorSuffices(t *testing.T, r roles, environment []string) {
	t.Helper()
	// With the monitor's rights besides, the worker's monitor shows the audit, too.
	mustStatement(t, r.superuser, `GRANT postrider_monitor TO postrider_worker`)
	second := clustertest.Launch(t, "second", environment, "run", "--http-addr=127.0.0.1:0")
	for _, path := range []string{"/api/v1/messages", "/api/v1/audit", "/messages", "/audit", "/"} {
		get(t, second, path)
	}
	var workers struct {
		Workers []struct {
			ID string `json:"worker_id"`
		}
	}
	pool := pgtest.Pool(t, r.superuser)
	clustertest.Until(t, "both workers are known", func(ctx context.Context) (bool, error) { // a monitor may answer before its worker's row is there
		var known int
		err := pool.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM %q.outbox_workers`, r.schema)).Scan(&known)
		return known == 2, err
	}, second.Stderr)
	if err := json.Unmarshal([]byte(get(t, second, "/api/v1/workers")), &workers); err != nil || len(workers.Workers) != 2 {
		t.Fatalf("the monitor shows %v: %v", workers, err)
	}
	mustPostrider(t, r.environment(t, "operator"), "workers", "drain", workers.Workers[0].ID, "--reason=test")
}

// metricsOf scrapes a worker that listens on loopback.
func metricsOf(t *testing.T, p *clustertest.Process) string {
	t.Helper()
	return get(t, p, "/metrics")
}

// get asks the monitor of a worker that listens on loopback.
func get(t *testing.T, p *clustertest.Process, path string) string {
	t.Helper()
	w := clustertest.Worker{Process: p}
	response := ask(t, w.Monitor(t)+path)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, response.Status, err)
	}
	return string(text)
}

// ask sends a GET.
func ask(t *testing.T, address string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

const everything = "DELETE INSERT SELECT UPDATE"

// Who may do what to a table is written down here a second time, by hand.
var held = map[string]map[string]string{
	"consumer": {
		"inbox_callers": everything, "inbox_calls": everything, "inbox_consumers": everything, "inbox_lanes": everything, "inbox_malformed": everything, "inbox_parked": everything,
		"inbox_readers": everything, "inbox_records": everything, "inbox_senders": everything, "inbox_streams": everything,
		"inbox_schema_version": "SELECT",
	},
	"producer": {},
	"monitor": {
		"events": "SELECT(recorded_at) SELECT(sequence)",
		"outbox": "SELECT", "outbox_ready": "SELECT", "outbox_parked": "SELECT", "outbox_messages": "SELECT",
		"outbox_deliveries": "SELECT", "outbox_partitions": "SELECT", "outbox_workers": "SELECT", "outbox_throughput": "SELECT",
		"outbox_audit": "SELECT", "outbox_settings": "SELECT", "outbox_watermark": "SELECT", "outbox_schema_version": "SELECT",
		"outbox_replays": "SELECT", "outbox_ownership": "SELECT", "outbox_types": "SELECT",
	},
	"operator": {
		"events": "SELECT(audit_only) SELECT(event_id) SELECT(event_type) SELECT(metadata) SELECT(occurred_at) SELECT(recorded_at) " +
			"SELECT(routing_key) SELECT(sequence) SELECT(stream_id) SELECT(stream_version) SELECT(tenant_id) SELECT(topic)",
		"outbox": "DELETE INSERT SELECT UPDATE", "outbox_ready": "SELECT", "outbox_parked": "SELECT", "outbox_messages": "SELECT",
		"outbox_deliveries": "INSERT SELECT", "outbox_partitions": "SELECT UPDATE(paused_at) UPDATE(updated_at)",
		"outbox_workers": "SELECT UPDATE(drain_requested_at)", "outbox_throughput": "INSERT SELECT UPDATE", "outbox_audit": "INSERT SELECT",
		"outbox_settings": "SELECT", "outbox_watermark": "SELECT", "outbox_schema_version": "SELECT",
		"outbox_replays": "INSERT SELECT UPDATE", "outbox_replay_sequences": "DELETE INSERT SELECT",
		"outbox_ownership": "SELECT", "outbox_types": "DELETE INSERT SELECT UPDATE",
	},
	"worker": {
		"events": "SELECT", "outbox_settings": "SELECT UPDATE(generation) UPDATE(regressed)", "outbox_schema_version": "SELECT",
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
	"producer": "outbox_append outbox_append_adopted outbox_append_batch outbox_append_bytes outbox_append_one outbox_without_enqueue",
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
		REVOKE ALL ON FUNCTION public.inbox_theirs FROM PUBLIC; GRANT SELECT ON public.inbox_mail TO postrider_consumer`)
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

// The grants that `postrider migrate print` begins with, which docs/configuration.md leads to, are those of the script.
func TestDocumentedGrantsAreTheScripts(t *testing.T) {
	t.Parallel()
	if page := read(t, "docs/configuration.md"); !strings.Contains(page, "roles.sql") || !strings.Contains(page, "`postrider migrate print`") {
		t.Error("docs/configuration.md leads to no grants")
	}
	script := strings.Join(strings.Fields(read(t, "deploy/sql/roles.sql")), " ")
	printed := regexp.MustCompile(`(?m)^-- +|-- .*$`).ReplaceAllString(read(t, "outbox/schema/migrations/00001_tables.sql"), "")
	compared := 0
	for _, line := range strings.Split(strings.Join(strings.Fields(strings.ReplaceAll(printed, "{schema}.", "")), " "), ";") {
		_, grant, found := strings.Cut(line, "GRANT ")
		if !found || !strings.HasSuffix(grant, " TO app_relay") || strings.HasPrefix(grant, "SELECT ON outbox_audit") { // an optional one
			continue
		}
		compared++
		want := "GRANT " + strings.ReplaceAll(grant, "app_relay", "postrider_worker")
		if !strings.Contains(script, want) {
			t.Errorf("roles.sql lacks %q of migrate print", want)
		}
	}
	if compared < 7 {
		t.Errorf("only %d grants were compared", compared)
	}
}
