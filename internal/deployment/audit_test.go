package deployment_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// A worker's role audits, and queues again what the stream lost, without another right.
func TestAnAuditTakesNoRightInPostgreSQL(t *testing.T) {
	t.Parallel()
	r := newRoles(t, "public")
	broker := natstest.Start(t, 1)
	stream := broker.Stream(t, 1)
	worker := clustertest.Launch(t, "worker", append(r.environment(t, "worker"), "NATS_URL="+broker.URL()), "run", "--http-addr=127.0.0.1:0", "--audit=10s")
	mustStatement(t, r.superuser, `SELECT outbox_append('s-' || n, 't', '{}') FROM generate_series(1, 50) AS n`)
	reached := func(what string, reached func() bool) {
		t.Helper()
		clustertest.Until(t, what, func(context.Context) (bool, error) { return reached(), nil }, worker.Stderr)
	}
	published := func(n int) func() bool {
		return func() bool {
			return strings.Contains(metricsOf(t, worker), fmt.Sprintf("\noutbox_published_total %d\n", n))
		}
	}
	reached("all are published", published(50))
	last := stream.CachedInfo().State.LastSeq
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for at := last + 1; at <= info.State.LastSeq; at++ {
		if m, err := stream.GetMsg(t.Context(), at); err == nil && m.Header.Get("Outbox-Stream") == "s-25" {
			last = at
		}
	}
	if err := stream.DeleteMsg(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	reached("what was lost is published again", published(51))
}

// audits wants an audit to need the rights that the documents name, and no others.
func audits(t *testing.T) {
	t.Helper()
	for _, given := range []bool{false, true} {
		r := newRestricted(t, func(p *server.Permissions) {
			for _, right := range []string{"CREATE", "MSG.NEXT", "DELETE"} {
				subject := "$JS.API.CONSUMER." + right + ".EVENTS.>"
				if !strings.Contains(read(t, "docs/configuration.md"), "`"+subject+"`") {
					t.Errorf("docs/configuration.md does not name %s", subject)
				}
				if given {
					p.Publish.Allow = append(p.Publish.Allow, subject)
				}
			}
		})
		c := clustertest.New(t, clustertest.Config{Partitions: 2, NATS: natstest.Attach(r.as("admin")), NoStream: true})
		w := clustertest.Launch(t, "worker", r.environment(c), "run", "--http-addr=off", "--audit=10s")
		c.Backlog(t, 50)
		c.WaitDrained(t)
		if !given {
			w.WaitLog(t, "an audit of the stream ended early")
			continue
		}
		c.WaitCount(t, 2, `SELECT count(*) FROM outbox_audit WHERE action = 'stream.audit' AND details ->> 'messages' = '50'`)
		if strings.Contains(w.Stderr(), "Permissions Violation") {
			t.Errorf("a right is missing: %s", w.Stderr())
		}
	}
}
