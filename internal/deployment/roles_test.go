package deployment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/pgstore"
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
		{"migrate", "status"}, {"migrate", "up", "--others-may-create"}, {"partitions", "sync"}, {"partitions", "resize", "8", "--yes", "--reason=test"},
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
		{"types", "set", "thing.done", "--no-check"},
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
	store, err := pgstore.New(t.Context(), pool, r.schema, pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	sweeper, err := pgstore.NewSweeper(store, pool, pgstore.RetentionConfig{History: time.Hour})
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
	address := (&clustertest.Worker{Process: second}).Monitor(t) + "/api/v1/workers"
	clustertest.Until(t, "the second one's monitor shows both workers", func(ctx context.Context) (bool, error) { // a snapshot may be older
		response := askWithin(ctx, t, address)
		defer response.Body.Close()
		err := json.NewDecoder(response.Body).Decode(&workers)
		return len(workers.Workers) == 2, err
	}, second.Stderr)
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
	return askWithin(t.Context(), t, address)
}

func askWithin(ctx context.Context, t *testing.T, address string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
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
