package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

func TestWrongMonitorSettingsAreRefused(t *testing.T) {
	t.Parallel()
	open, empty := writeFile(t, "# "+planted+"\n"), writeFile(t, "# "+planted+"\n")
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	line := writeFile(t, "operate password ann "+planted+"\nread-only token a\x01b "+planted+"\n")
	proxy := writeFile(t, "operate proxy X-User "+planted+"\n")
	on := func(args ...string) []string {
		return append([]string{"run", "--database-url=postgres://u:" + planted + "@" + nobody + "/x", "--http-addr=127.0.0.1:0"}, args...)
	}
	for name, c := range map[string]complaint{
		"proxy by name":            {on("--http-users-file=" + proxy), exitRefused, []string{"--http-users-file", proxy + ", line 1", "10.0.0.0/8"}},
		"token with a space":       {on("--http-token=a b"), exitRefused, []string{"--http-token"}},
		"name of a token":          {on("--http-users-file=" + line), exitRefused, []string{"--http-users-file", line + ", line 2: Name"}},
		"file that others write":   {on("--http-users-file=" + open), exitRefused, []string{"--http-users-file", "chmod"}},
		"file of nobody":           {on("--http-users-file=" + empty), exitRefused, []string{"--http-users-file", "nobody"}},
		"file that is not there":   {on("--http-users-file=nothing"), exitRefused, []string{"--http-users-file"}},
		"open bind, header alone":  {[]string{"run", "--database-url=postgres://" + nobody + "/x", "--http-addr=:0", "--http-show-payload"}, exitRefused, []string{"--http-addr", "--http-users-file", "--http-token"}},
		"path with a slash behind": {on("--http-host=a/ops/"), exitRefused, []string{"--http-", "BasePath"}},
		"two paths":                {on("--http-host=a/ops", "--http-host=/outbox"), exitRefused, []string{"--http-host", "/ops and /outbox"}},
		"host with a port":         {on("--http-host=a:80"), exitRefused, []string{"--http-", "AllowedHosts"}},
		"payloads for a non-value": {on("--http-show-payload=perhaps"), exitRefused, []string{"--http-show-payload"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}

// A worker's monitor acts as soon as its role has the rights; the settings say
// who may, and under which name.
func TestTheMonitorActsInTheNameOfItsUsers(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	users := writeFile(t, "operate password ann "+planted+"-1\nread-only password bob "+planted+"-2\n"+
		"operate token robot "+planted+"-3\nread-only token scraper "+planted+"-4\n"+
		"read-only proxy X-User 127.0.0.0/8\n")
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	w := c.Start(t, 1, "--http-addr=127.0.0.1:0", "--http-show-payload", "--http-users-file="+users, "--http-token="+planted+"-5")[0]
	sequence := appendEvent(t, c, "s", tooLarge)
	c.WaitCount(t, 1, `SELECT count(*) FROM outbox_messages WHERE state = 'dead'`)
	basic := func(name, secret string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, planted+secret) }
	}
	bearer := func(secret string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+planted+secret) }
	}
	type who struct {
		name string
		as   func(*http.Request)
	}
	pause := func(as func(*http.Request)) int {
		t.Helper()
		status, _ := ask(t, w, http.MethodPost, "/api/v1/partitions/pause", `{"partitions": [3]}`, as)
		ask(t, w, http.MethodPost, "/api/v1/partitions/resume", `{"partitions": [3]}`, as)
		return status
	}
	for _, one := range []who{{"ann", basic("ann", "-1")}, {"robot", bearer("-3")}, {"token", bearer("-5")}} {
		if status := pause(one.as); status != http.StatusOK {
			t.Errorf("%s may not pause: %d", one.name, status)
		}
		if n := c.Count(t, `SELECT count(*) FROM outbox_audit WHERE actor = $1`, one.name); n != 2 {
			t.Errorf("the audit names %s %d times, want 2", one.name, n)
		}
		if status, body := ask(t, w, http.MethodGet, fmt.Sprintf("/api/v1/messages/%d/payload", sequence), "", one.as); status != http.StatusOK || len(body) < tooLarge {
			t.Errorf("%s sees %d bytes of the payload: %d", one.name, len(body), status)
		}
	}
	for _, one := range []who{{"bob", basic("bob", "-2")}, {"scraper", bearer("-4")}, {"zoe", func(r *http.Request) { r.Header.Set("X-User", "zoe") }}} {
		status, _ := ask(t, w, http.MethodGet, "/api/v1/messages", "", one.as)
		hidden, _ := ask(t, w, http.MethodGet, fmt.Sprintf("/api/v1/messages/%d/payload", sequence), "", one.as)
		if acts := pause(one.as); status != http.StatusOK || hidden != http.StatusForbidden || acts != http.StatusForbidden {
			t.Errorf("%s: list %d, payload %d, pause %d", one.name, status, hidden, acts)
		}
	}
	if status, _ := ask(t, w, http.MethodGet, "/api/v1/messages", ""); status != http.StatusUnauthorized {
		t.Errorf("a stranger's list: %d", status)
	}
	status, body := ask(t, w, http.MethodPost, "/api/v1/messages/discard", fmt.Sprintf(`{"sequences": [%d], "reason": %q}`, sequence, planted), basic("ann", "-1"))
	if status != http.StatusOK {
		t.Errorf("the message is not discarded: %d, %s", status, body)
	}
	c.WaitDrained(t)
	wantNoSecret(t, w.Stderr())
}

// What a relay's role lacks is named in the log and missing from the monitor;
// the worker delivers all the same.
func TestTheMonitorDoesWhatItsRoleMay(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for name, test := range map[string]struct { //nolint:paralleltest // clusters run one at a time
		grant               string
		list, pause, audits int
		says                string
	}{
		"relay":                 {"", http.StatusOK, http.StatusOK, http.StatusServiceUnavailable, "SELECT ON"},
		"relay with the audit":  {`GRANT SELECT ON outbox_audit TO {role}`, http.StatusOK, http.StatusOK, http.StatusOK, ""},
		"relay without actions": {`REVOKE INSERT ON outbox_audit FROM {role}`, http.StatusOK, http.StatusForbidden, http.StatusServiceUnavailable, "takes no actions"},
		"relay of a bare view": {`CREATE VIEW bare AS SELECT sequence, event_id, stream_id, stream_version, event_type, payload, metadata, tenant_id, recorded_at FROM events;
			GRANT SELECT ON bare TO {role}`, http.StatusOK, http.StatusOK, http.StatusServiceUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := clustertest.New(t, clustertest.Config{Partitions: 4})
			flags := []string{"--http-addr=127.0.0.1:0", "--ordering=stream", "--database-url=" + relayRole(t, c, test.grant)}
			if strings.Contains(test.grant, "bare") {
				if code, _, stderr := call(t, "migrate", "up", "--database-url="+c.DatabaseURL, "--events-relation=bare"); code != exitOK {
					t.Fatal(stderr)
				}
			}
			w := c.Start(t, 1, flags...)[0]
			list, body := ask(t, w, http.MethodGet, "/api/v1/messages", "")
			pause, _ := ask(t, w, http.MethodPost, "/api/v1/partitions/pause", `{"partitions": [3]}`)
			ask(t, w, http.MethodPost, "/api/v1/partitions/resume", `{"partitions": [3]}`)
			audits, _ := ask(t, w, http.MethodGet, "/api/v1/audit", "")
			if list != test.list || pause != test.pause || audits != test.audits {
				t.Errorf("list %d, pause %d, audit %d; want %+v: %s", list, pause, audits, test, body)
			}
			if !strings.Contains(w.Stderr(), test.says) {
				t.Errorf("the log does not say %q", test.says)
			}
			appendEvent(t, c, "s", 1)
			c.WaitDrained(t)
		})
	}
}

// rolesScript is where the rights of each role are written down.
const rolesScript = "../../deploy/sql/roles.sql"

var (
	sharedList = regexp.MustCompile(`(\w+) constant text := ((?:'[^']*'\s*)+);`)
	scripted   = regexp.MustCompile(`'(GRANT [^']+) TO ([^']+)'`)
)

// grantsOf are the statements of the script that give a role its rights, to {role}.
func grantsOf(t *testing.T, role string) string {
	t.Helper()
	text, err := os.ReadFile(rolesScript)
	if err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("%I", "public", "SEQUENCE %s", "SEQUENCE public.events_sequence_seq").Replace(string(text))
	for _, list := range sharedList.FindAllStringSubmatch(script, -1) { // a list of tables that grants share
		script = strings.ReplaceAll(script, "' || "+list[1]+" || '", strings.Join(strings.Split(list[2], "'"), ""))
	}
	var grants []string
	for _, m := range scripted.FindAllStringSubmatch(script, -1) {
		if slices.Contains(strings.Split(m[2], ", "), "postrider_"+role) {
			grants = append(grants, m[1]+" TO {role};")
		}
	}
	if len(grants) < 7 {
		t.Fatalf("%s grants postrider_%s %q", rolesScript, role, grants)
	}
	return strings.Join(grants, "\n")
}

// relayRole makes a role with a relay's rights, and changes them; it returns the
// address for it.
func relayRole(t *testing.T, c *clustertest.Cluster, change string) string {
	t.Helper()
	role := "relay_" + strings.ToLower(rand.Text())
	exec := func(ctx context.Context, sql string) {
		t.Helper()
		conn, err := pgx.Connect(ctx, c.DatabaseURL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, strings.ReplaceAll(sql, "{role}", role)); err != nil {
			t.Fatal(err)
		}
	}
	exec(t.Context(), `CREATE ROLE {role} LOGIN PASSWORD 'relay';`+grantsOf(t, "worker")+change)
	t.Cleanup(func() { exec(context.Background(), `DROP OWNED BY {role} CASCADE; DROP ROLE {role}`) })
	address, err := url.Parse(c.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(role, "relay")
	return address.String()
}

// The settings of run name where each comes from, and no secret.
func TestMonitorSettingsAreShown(t *testing.T) {
	t.Setenv("POSTRIDER_HTTP_ENVIRONMENT", "test")
	t.Setenv("POSTRIDER_HTTP_HOST", "ops.example.org/outbox,[::1]")
	t.Setenv("POSTRIDER_HTTP_TOKEN", planted)
	t.Setenv("POSTRIDER_HTTP_SHOW_PAYLOAD", "true")
	code, stdout, stderr := call(t, "config", "print", "--json")
	var settings map[string]struct {
		Value  any
		Source string
	}
	if err := json.Unmarshal([]byte(stdout), &settings); code != exitOK || err != nil {
		t.Fatalf("%d, %v: %s%s", code, err, stdout, stderr)
	}
	for name, want := range map[string]string{
		"http-environment": "test environment", "http-host": "[ops.example.org/outbox [::1]] environment", "http-token": "*** environment",
		"http-show-payload": "true environment", "http-users-file": " default",
	} {
		if got := fmt.Sprint(settings[name].Value, " ", settings[name].Source); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	wantNoSecret(t, stdout+stderr)
}
