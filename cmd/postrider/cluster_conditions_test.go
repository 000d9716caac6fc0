package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/internal/loopback"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// namedWithin is promised for a cause to be named everywhere. A busy machine has as much
// again.
const namedWithin = 3 * time.Second

// hindered is a cluster with one worker of an ordinary role, whose servers can be broken.
type hindered struct {
	*clustertest.Cluster
	broker  *server.Server
	options *server.Options
	worker  *clustertest.Worker
	role    string
	on      []string // flags of commands with the worker's own settings
	monitor string
}

func newHindered(t *testing.T) *hindered {
	t.Helper()
	h := &hindered{role: "relay_" + strings.ReplaceAll(uuid.NewString(), "-", "")}
	h.options = &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}
	h.options.Users = users(nil)
	h.start(t)
	if address, is := h.broker.Addr().(*net.TCPAddr); is {
		h.options.Port = address.Port
	}
	t.Cleanup(func() { h.broker.Shutdown(); h.broker.WaitForShutdown() })
	as := func(user string) string { return fmt.Sprintf("nats://%s:%s@127.0.0.1:%d", user, user, h.options.Port) }
	h.Cluster = clustertest.New(t, clustertest.Config{Partitions: 4, NATS: natstest.Attach(as("admin"))})
	const password = "relay"
	h.exec(t, "CREATE ROLE "+h.role+" LOGIN PASSWORD '"+password+"'", "GRANT USAGE ON SCHEMA public TO "+h.role,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+h.role,
		"REVOKE INSERT, UPDATE, DELETE ON events FROM "+h.role, "GRANT SELECT ON SEQUENCE events_sequence_seq TO "+h.role,
		"CREATE TABLE orders (id int PRIMARY KEY)")
	address, err := url.Parse(h.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(h.role, password)
	h.on = []string{"--database-url=" + address.String(), "--nats-url=" + as("relay")}
	port, err := loopback.FreePort(t.Context()) // which a worker has, too, that takes the place of one
	if err != nil {
		t.Fatal(err)
	}
	h.worker = &clustertest.Worker{Process: clustertest.Launch(t, "worker", nil, append([]string{"run", fmt.Sprintf("--http-addr=127.0.0.1:%d", port)}, h.on...)...)}
	h.monitor = h.worker.Monitor(t)
	h.Backlog(t, 4)
	h.WaitDrained(t)
	return h
}

// users are the worker's, with these permissions, and the administrator.
func users(relay *server.Permissions) []*server.User {
	return []*server.User{{Username: "relay", Password: "relay", Permissions: relay}, {Username: "admin", Password: "admin"}}
}

func (h *hindered) start(t *testing.T) {
	t.Helper()
	broker, err := server.NewServer(h.options.Clone())
	if err != nil {
		t.Fatal(err)
	}
	broker.Start()
	if !broker.ReadyForConnections(clustertest.Patience) {
		t.Fatal("the NATS server does not start")
	}
	h.broker = broker
}

func (h *hindered) permit(t *testing.T, relay *server.Permissions) {
	t.Helper()
	h.reload(t, users(relay))
}

func (h *hindered) reload(t *testing.T, users []*server.User) {
	t.Helper()
	changed := h.options.Clone()
	changed.Users = users
	if err := h.broker.ReloadOptions(changed); err != nil {
		t.Fatal(err)
	}
}

// exec runs statements as the owner, also where the database is read-only.
func (h *hindered) exec(t *testing.T, statements ...string) {
	t.Helper()
	err := pgx.BeginTxFunc(t.Context(), h.Pool, pgx.TxOptions{AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		for _, sql := range statements {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// readOnly changes what sessions may do that begin from now on, and ends the others.
func (h *hindered) readOnly(t *testing.T, change string) {
	t.Helper()
	var name string
	if err := h.Pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	h.exec(t, "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" "+change)
	if _, err := h.Pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	h.Pool.Reset()
}

func (h *hindered) get(ctx context.Context, path string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.monitor+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	return response.StatusCode, string(all), err
}

// silent lists those that do not name the reason; with "" those that name any.
func (h *hindered) silent(t *testing.T, reason condition.Reason) []string {
	t.Helper()
	var missing []string
	for _, one := range []struct{ name, path, says string }{
		{"/readyz", "/readyz", string(reason) + ": "},
		{"metric", "/metrics", fmt.Sprintf("outbox_delivery_paused{reason=%q} 1", reason)},
		{"API", "/api/v1/summary", fmt.Sprintf(`"conditions":[{"reason":%q`, reason)},
		{"page", "/", "<strong>" + reason.Title()},
	} {
		status, body, err := h.get(t.Context(), one.path)
		if err != nil || !strings.Contains(body, one.says) || one.path == "/readyz" && status != http.StatusServiceUnavailable {
			missing = append(missing, fmt.Sprintf("%s: %d, %v", one.name, status, err))
		}
	}
	code, text, stderr := call(t, "status", h.on[0])
	if code != exitOK || !strings.Contains(strings.Join(strings.Fields(text), " "), "delivery pauses: "+string(reason)+" since ") {
		missing = append(missing, "status: "+text+stderr)
	}
	return missing
}

// wantCure has doctor name the cause in one line with the cure.
func (h *hindered) wantCure(t *testing.T, says string) {
	t.Helper()
	_, stdout, stderr := call(t, append([]string{"doctor", "--json"}, h.on...)...)
	var findings []finding
	if err := json.Unmarshal([]byte(stdout), &findings); err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	for _, f := range findings {
		if f.Level == levelError && strings.Contains(f.Detail, says) && strings.Contains(f.Detail, "to mend it: ") && !strings.Contains(f.Detail, "\n") {
			return
		}
	}
	t.Errorf("doctor does not name it and its cure: %s", stdout)
}

// whatHinders is each cause: how it comes, how it goes, and what is said of it.
func whatHinders() []struct {
	name        string
	begin, end  func(*testing.T, *hindered)
	reason      condition.Reason
	doctor      string
	unwriteable bool // nothing can be appended meanwhile
} {
	exec := func(statements ...string) func(*testing.T, *hindered) {
		return func(t *testing.T, h *hindered) {
			t.Helper()
			for i := range statements {
				statements[i] = strings.ReplaceAll(statements[i], "{role}", h.role)
			}
			h.exec(t, statements...)
		}
	}
	return []struct {
		name        string
		begin, end  func(*testing.T, *hindered)
		reason      condition.Reason
		doctor      string
		unwriteable bool
	}{
		{
			name: "stream deleted", reason: condition.StreamMissing, doctor: "stream not found",
			begin: func(t *testing.T, h *hindered) {
				t.Helper()
				if err := h.NATS.JetStream(t).DeleteStream(t.Context(), natstest.StreamName); err != nil {
					t.Fatal(err)
				}
			},
			end: func(t *testing.T, h *hindered) { t.Helper(); h.NATS.Stream(t, 1) },
		},
		{
			name: "broker gone", reason: condition.BrokerAway, doctor: "connect to NATS",
			begin: func(_ *testing.T, h *hindered) { h.broker.Shutdown(); h.broker.WaitForShutdown() },
			end:   func(t *testing.T, h *hindered) { t.Helper(); h.start(t) },
		},
		{
			name: "login refused", reason: condition.BrokerRefused, doctor: "uthorization",
			begin: func(t *testing.T, h *hindered) {
				t.Helper()
				h.reload(t, users(nil)[1:])
			},
			end: func(t *testing.T, h *hindered) { t.Helper(); h.reload(t, users(nil)) },
		},
		{
			name: "permission revoked", reason: condition.BrokerRefused, doctor: "Permissions Violation",
			begin: func(t *testing.T, h *hindered) {
				t.Helper()
				h.permit(t, &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"events.>"}}})
			},
			end: func(t *testing.T, h *hindered) { t.Helper(); h.permit(t, nil) },
		},
		{
			name: "subscriptions revoked", reason: condition.BrokerRefused, doctor: "Permissions Violation",
			begin: func(t *testing.T, h *hindered) {
				t.Helper()
				h.permit(t, &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"_INBOX.>"}}})
			},
			end: func(t *testing.T, h *hindered) { t.Helper(); h.permit(t, nil) },
		},
		{
			name: "right on a table revoked", reason: condition.DatabaseRights, doctor: "permission denied for table",
			begin: exec("REVOKE DELETE ON outbox_ready FROM {role}"), end: exec("GRANT DELETE ON outbox_ready TO {role}"),
		},
		{
			name: "database read-only", reason: condition.DatabaseReadOnly, doctor: "read-only", unwriteable: true,
			begin: func(t *testing.T, h *hindered) { t.Helper(); h.readOnly(t, "SET default_transaction_read_only = on") },
			end:   func(t *testing.T, h *hindered) { t.Helper(); h.readOnly(t, "RESET default_transaction_read_only") },
		},
		{
			name: "WAL functions revoked", reason: condition.DatabaseRights,
			doctor: "without functions of PostgreSQL do workers that begin then",
			begin:  exec("REVOKE EXECUTE ON FUNCTION " + walFunctions + " FROM PUBLIC"),
			end:    exec("GRANT EXECUTE ON FUNCTION " + walFunctions + " TO PUBLIC"),
		},
	}
}

const walFunctions = "pg_control_system(), pg_walfile_name(pg_lsn), pg_current_wal_insert_lsn()"

// Whatever keeps a worker from delivering is named by everything that people and programs look at, and by nothing any
// more when it is over.
func TestEveryPauseOfDeliveryIsNamed(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for _, c := range whatHinders() { //nolint:paralleltest // clusters run one at a time
		t.Run(c.name, func(t *testing.T) {
			h := newHindered(t)
			if status, body, err := h.get(t.Context(), "/readyz"); err != nil || status != http.StatusOK {
				t.Fatalf("/readyz before: %d %s %v", status, body, err)
			}
			c.begin(t, h)
			began := time.Now()
			if !c.unwriteable {
				h.Backlog(t, 4)
			}
			var missing []string
			clustertest.Until(t, "all name "+string(c.reason), func(context.Context) (bool, error) {
				missing = h.silent(t, c.reason) //nolint:contextcheck // of the test
				return len(missing) == 0, nil
			}, func() string { return strings.Join(missing, "\n") })
			if took := time.Since(began); took > 2*namedWithin {
				t.Errorf("it was named everywhere after %s, want %s", took, namedWithin)
			}
			if !c.unwriteable {
				h.wantWhy(t, c.reason)
			}
			h.wantCure(t, c.doctor)
			c.end(t, h)
			h.WaitDrained(t)
			var status int
			var body string
			clustertest.Until(t, "nothing is named any more", func(ctx context.Context) (bool, error) {
				var err error
				status, body, err = h.get(ctx, "/readyz")
				return status == http.StatusOK, err
			}, func() string { return body })
			_, metrics, err := h.get(t.Context(), "/metrics")
			if err != nil || strings.Contains(metrics, "outbox_delivery_paused{reason=\""+string(c.reason)+"\"} 1") {
				t.Errorf("the metric stays: %v", err)
			}
		})
	}
}

// wantWhy has the API and `partitions list` say of a partition what it waits for.
func (h *hindered) wantWhy(t *testing.T, reason condition.Reason) {
	t.Helper()
	h.Backlog(t, 4) // what waited may have been published before the cause was known
	title := strings.ToLower(reason.Title()[:1]) + reason.Title()[1:]
	var body, list string
	clustertest.Until(t, "the partitions say why", func(ctx context.Context) (bool, error) {
		var err error
		if _, body, err = h.get(ctx, "/api/v1/partitions"); err != nil {
			return false, err
		}
		_, list, _ = call(t, "partitions", "list", h.on[0]) //nolint:contextcheck // of the test
		return strings.Contains(body, `"why":["`+title) && strings.Contains(list, title), nil
	}, func() string { return body + list })
}

// A max_payload that is lowered under a worker ends neither it nor delivery: the event that is too large now fails alone.
func TestALoweredMaxPayloadFailsOneEventAlone(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	h := newHindered(t)
	changed := h.options.Clone()
	changed.Users, changed.MaxPayload = users(nil), 2<<10
	if err := h.broker.ReloadOptions(changed); err != nil {
		t.Fatal(err)
	}
	h.exec(t, "SELECT outbox_append('large', 'order.placed', to_jsonb(repeat('x', 5000)))")
	h.Backlog(t, 50)
	clustertest.Until(t, "all but the large event are published", func(ctx context.Context) (bool, error) {
		var waiting, dead int
		err := h.Pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state <> 'dead'), count(*) FILTER (WHERE state = 'dead' AND last_error LIKE '%max_payload%')
			FROM outbox_messages WHERE state NOT IN ('published', 'skipped')`).Scan(&waiting, &dead)
		return waiting == 0 && dead == 1, err
	}, nil)
	select {
	case <-h.worker.Ended():
		t.Errorf("the worker ended: %s", h.worker.Stderr())
	default:
	}
}

// What people do to tables while a worker runs, so that writes fail or have no events, is named by its log, its metric, its page and status.
func TestFaultsOfWritesAreNamed(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	h := newHindered(t)
	if code, _, complaint := call(t, "capture", "create", "--table=public.orders", "--database-url="+h.DatabaseURL); code != exitOK {
		t.Fatal(complaint)
	}
	h.exec(t, "ALTER TABLE orders DISABLE TRIGGER \"00_postrider_capture\"", "SELECT setval('events_sequence_seq', 1)")
	for _, want := range []string{"public.orders: its trigger is disabled", "events_sequence_seq stands at 1"} {
		var missing []string
		clustertest.Until(t, "all name "+want, func(ctx context.Context) (bool, error) {
			missing = nil
			for _, one := range []struct{ name, path, says string }{{"metric", "/metrics", `outbox_write_faults{kind="captured"} 1`}, {"metric", "/metrics", `outbox_write_faults{kind="behind"} 1`}, {"page", "/", want}} {
				if _, body, err := h.get(ctx, one.path); err != nil || !strings.Contains(body, one.says) {
					missing = append(missing, fmt.Sprintf("%s: %v", one.name, err))
				}
			}
			if !strings.Contains(h.worker.Stderr(), want) {
				missing = append(missing, "log")
			}
			return len(missing) == 0, nil
		}, func() string { return strings.Join(missing, "\n") })
		if _, text, stderr := call(t, "status", h.on[0]); !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("status does not name %s: %s%s", want, text, stderr)
		}
	}
}
