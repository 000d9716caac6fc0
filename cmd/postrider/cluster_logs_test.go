package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// withSecret puts a password into a URL that has none; it returns the one that is in
// it then.
func withSecret(t *testing.T, text string) (whole, secret string) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if own, has := u.User.Password(); has {
		return text, own
	}
	name := u.User.Username()
	if name == "" {
		name = "anybody"
	}
	u.User = url.UserPassword(name, planted)
	return u.String(), planted
}

// secretive is the environment of a worker whose every setting that can hold a
// secret does.
func secretive(t *testing.T, c *clustertest.Cluster) (environment []string, password string) {
	t.Helper()
	database, password := withSecret(t, c.Database.URL())
	broker, _ := withSecret(t, c.Brokers[0].URL())
	return []string{
		"DATABASE_URL=" + database, "NATS_URL=" + broker,
		"POSTRIDER_HTTP_USERS_FILE=" + writeFile(t, "operate password admin "+planted+"\n"), "POSTRIDER_HTTP_TOKEN=" + planted,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://u:" + planted + "@" + nobody,
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20" + planted,
		"OTEL_RESOURCE_ATTRIBUTES=password=" + planted, "OTEL_BSP_SCHEDULE_DELAY=50",
	}, password
}

// secretEvents appends events that say the secret wherever an event can say
// something, one of them too large to be sent.
func secretEvents(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	for _, size := range []int{0, 2 << 20} {
		_, err := c.Pool.Exec(t.Context(), `SELECT outbox_append(gen_random_uuid()::text, 'order.paid', jsonb_build_object('card', $1::text),
			metadata => jsonb_build_object('headers', jsonb_build_object('x-card', $2::text), 'traceparent', $2::text))`,
			planted+strings.Repeat("x", size), planted)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// askSecretly sends requests with secrets to the monitor, known and unknown ones.
func askSecretly(t *testing.T, monitor string) {
	t.Helper()
	for _, path := range []string{"/api/v1/summary?token=" + planted, "/nowhere?password=" + planted, "/metrics"} {
		for _, user := range []string{"admin", "mallory"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, monitor+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.SetBasicAuth(user, planted)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
		}
	}
}

// A worker whose settings are full of secrets loses its database and its broker.
// Its log says much, at every level, and none of them.
func TestTheLogKeepsSecrets(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for _, format := range []string{"text", "json"} { //nolint:paralleltest // clusters run one at a time
		t.Run(format, func(t *testing.T) {
			c := clustertest.New(t, clustertest.Config{Partitions: 4, Proxied: true})
			environment, password := secretive(t, c)
			w := &clustertest.Worker{Process: clustertest.Launch(t, "worker", environment, "run", "--http-addr=127.0.0.1:0", "--json",
				"--log-level=debug", "--log-format="+format, "--lease-ttl=1s", "--ack-timeout=500ms", "--interval=10ms")}
			secretEvents(t, c)
			c.WaitCount(t, 1, `SELECT count(*) FROM outbox WHERE dead_at IS NOT NULL`)
			w.WaitLog(t, "traces cannot be exported")
			askSecretly(t, w.Monitor(t))
			broker := c.NATS.Cluster(t)
			if err := broker.StopNode(0); err != nil {
				t.Fatal(err)
			}
			w.WaitLog(t, "disconnected from NATS")
			secretEvents(t, c)
			w.WaitLog(t, "delivery pauses")
			clustertest.Until(t, "the database is missed", func(context.Context) (bool, error) {
				c.Database.Cut()
				return strings.Contains(w.Stderr(), "heartbeat failed"), nil
			}, nil)
			if err := broker.RestartNode(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			w.WaitLog(t, "reconnected to NATS")
			c.WaitCount(t, 2, `SELECT count(*) FROM outbox WHERE dead_at IS NOT NULL`)
			w.Signal(t, syscall.SIGTERM)
			w.Exit(t)
			wantNoSecret(t, w.Stdout()+w.Stderr())
			if strings.Contains(w.Stdout()+w.Stderr(), password) {
				t.Error("the database's password is shown")
			}
			if format == "json" {
				wantObjects(t, w.Stderr())
			}
		})
	}
}

// wantObjects wants one JSON object a line, with what all of them have.
func wantObjects(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var entry struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Level == "" || entry.Msg == "" {
			t.Errorf("a line is no entry of the log: %v: %s", err, line)
		}
	}
}

// What a worker says when it cannot start keeps the format, and the secrets.
func TestTheLastWordKeepsTheFormat(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"PostgreSQL": onRun(),
		"setting":    onRun("--lease-ttl=-1s"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := call(t, append([]string{"--log-format=json"}, args...)...)
			if code == exitOK || !strings.Contains(stderr, `"error":`) {
				t.Errorf("status %d: %s", code, stderr)
			}
			wantObjects(t, stderr)
			wantNoSecret(t, fmt.Sprint(stderr))
		})
	}
}
