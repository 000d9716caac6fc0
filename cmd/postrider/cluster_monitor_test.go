package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// The monitor alone lives where no worker and no broker does: it shows, serves metrics, acts, and says when the database is away.
func TestTheMonitorLivesWithoutWorkers(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 4, Proxied: true})
	appendEvent(t, c, "s", 1)
	m := &clustertest.Worker{Process: clustertest.Launch(t, "monitor", []string{
		"DATABASE_URL=" + c.Database.URL(), "NATS_URL=nats://" + nobody,
	}, "monitor", "--http-addr=127.0.0.1:0")}
	get := func(path string) (int, string) { return ask(t, m, http.MethodGet, path, "") }
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("it is not ready: %d, %s", code, body)
	}
	code, body := get("/api/v1/summary")
	sum := read[struct {
		Pending    int64
		Workers    struct{ Active int }
		Partitions struct{ Total, Unowned int }
	}](t, body)
	if code != http.StatusOK || sum.Pending != 1 || sum.Workers.Active != 0 || sum.Partitions.Unowned != 4 {
		t.Errorf("%d, %s", code, body)
	}
	if code, body := get("/metrics"); code != http.StatusOK || !strings.Contains(body, "\noutbox_pending 1\n") {
		t.Errorf("the cluster's metrics: %d, %s", code, body)
	}
	if code, body := ask(t, m, http.MethodPost, "/api/v1/partitions/pause", `{"partitions": [3]}`); code != http.StatusOK {
		t.Errorf("it does not act: %d, %s", code, body)
	}
	if n := c.Count(t, `SELECT count(*) FROM outbox_workers`); n != 0 {
		t.Errorf("%d workers registered", n)
	}

	c.Database.Refuse(true)
	c.Database.HangUp()
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("without a database it is ready: %d, %s", code, body)
	}
	if code, _ := get("/healthz"); code != http.StatusOK {
		t.Errorf("without a database it does not live: %d", code)
	}
	c.Database.Refuse(false)
	for deadline := time.Now().Add(clustertest.Patience); ; {
		if code, body := get("/readyz"); code == http.StatusOK {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("it does not become ready again: %d, %s", code, body)
		}
	}
	m.Signal(t, syscall.SIGTERM)
	if code := m.Exit(t); code != exitOK {
		t.Errorf("status %d after SIGTERM", code)
	}
}

func TestTheMonitorAloneRefusesByName(t *testing.T) {
	t.Parallel()
	on := func(args ...string) []string {
		return append([]string{"monitor", "--database-url=postgres://u:" + planted + "@" + nobody + "/x"}, args...)
	}
	for name, c := range map[string]complaint{
		"nothing to serve": {on("--http-addr=off"), exitRefused, []string{"--http-addr"}},
		"open bind":        {on("--http-addr=0.0.0.0:0"), exitRefused, []string{"--http-addr"}},
		"lease":            {on("--lease-ttl=1ms"), exitRefused, []string{"--lease-ttl"}},
		"database":         {on(), exitFailed, []string{"--database-url"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}
