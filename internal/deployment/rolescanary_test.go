package deployment_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// A worker's role may append no more than canaries, and that only where it is asked for; without, the worker says so and delivers.
func TestACanaryTakesOneRight(t *testing.T) {
	t.Parallel()
	r := newRoles(t, "public")
	broker := natstest.Start(t, 1)
	broker.Stream(t, 1)
	worker := clustertest.Launch(t, "worker", append(r.environment(t, "worker"), "NATS_URL="+broker.URL()), "run", "--http-addr=127.0.0.1:0", "--canary=1s")
	told := func() string {
		return strings.Join(strings.Fields(mustPostrider(t, r.environment(t, "monitor"), "status")), " ")
	}
	status := func(want string, there bool) {
		t.Helper()
		clustertest.Until(t, fmt.Sprintf("the status has %q: %t", want, there), func(context.Context) (bool, error) {
			return strings.Contains(told(), want) == there, nil
		}, func() string { return told() + worker.Stderr() })
	}
	status("canary overdue: it cannot be appended: append: ERROR: permission denied for function outbox_append_batch (SQLSTATE 42501): run deploy/sql/roles.sql", true)
	if get(t, worker, "/readyz") == "" {
		t.Error("the worker is not ready")
	}
	mustStatement(t, r.superuser, "SET postrider.canary = 'on';"+read(t, "deploy/sql/roles.sql"))
	status("canary", false)
	read := func() bool {
		return strings.Contains(metricsOf(t, worker), `outbox_canary_seconds_count{stage="read"}`)
	}
	clustertest.Until(t, "one was read", func(context.Context) (bool, error) { return read(), nil }, worker.Stderr)
	if err := statement(t, r.own(r.url(t, "worker")), `SELECT public.outbox_append('s', 't', '{}')`); err == nil {
		t.Error("a worker may append by another function, too")
	}
	r.script(t)
	status("permission denied for function outbox_append_batch", true)
}
