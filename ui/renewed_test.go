package ui_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/ui"
)

// Rights and columns that go and come while a monitor runs are named within ten seconds, and missed no longer than they are away.
func TestWhatTheMonitorLacksIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	o.exec(t, `CREATE TABLE own AS SELECT * FROM events`)
	o.kill(t, "boom", o.append(t, "s"))
	o.exec(t, `INSERT INTO own SELECT * FROM events`)
	name := "monitor_" + strings.ToLower(rand.Text())
	o.exec(t, strings.ReplaceAll(`CREATE ROLE {role}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
		GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}`, "{role}", name))
	t.Cleanup(func() {
		if _, err := o.pool.Exec(context.Background(), `DROP OWNED BY `+name+`; DROP ROLE `+name); err != nil {
			t.Error(err)
		}
	})
	role := pgtest.PoolAs(t, o.address, name)
	own := pgstore.Relation{Name: "own"}
	operator, err := ops.New(t.Context(), role, "public", own)
	replays, failed := replay.New(t.Context(), role, "public", own)
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	composed, err := ui.Compose(t.Context(), ui.ServerConfig{Options: ui.Options{Replays: replays, Logger: slog.New(slog.NewTextHandler(o.log, nil))}}, o.source, operator, nil)
	if err != nil {
		t.Fatal(err)
	}
	composed.RenewEvery(100 * time.Millisecond)
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { _ = composed.Work(ctx) })
	t.Cleanup(working.Wait)
	t.Cleanup(stop)
	server := serveHandler(t, composed.Handler())

	const list, pause, again = "GET /messages", "POST /partitions/pause", "POST /replays"
	until := func(what string, status int, request string, says ...string) {
		t.Helper()
		method, path, _ := strings.Cut(request, " ")
		body := map[string]string{pause: `{"partitions": [3], "dry_run": true}`, again: `{"all": true, "dry_run": true}`}[request]
		var got answer
		for deadline := time.Now().Add(20 * time.Second); ; {
			got = api(t, server, method, path, body)
			if got.StatusCode == status || time.Now().After(deadline) {
				break
			}
			if err := wait(t.Context(), 50*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		if wantStatus(t, got, status); t.Failed() {
			t.Fatalf("%s: %s", what, o.log)
		}
		for _, part := range says {
			if !strings.Contains(got.text, part) && !strings.Contains(o.log.String(), part) {
				t.Errorf("%s: neither the answer nor the log names %s: %s\n%s", what, part, got.text, o.log)
			}
		}
	}
	until("in the beginning", http.StatusOK, list)
	for _, c := range []struct {
		away, back, request, says string
		status, well              int
	}{
		{`REVOKE SELECT ON outbox_deliveries FROM {role}`, `GRANT SELECT ON outbox_deliveries TO {role}`, list, "outbox_deliveries", 501, 200},
		{`REVOKE USAGE ON SCHEMA public FROM PUBLIC`, `GRANT USAGE ON SCHEMA public TO PUBLIC`, list, "schema public", 501, 200},
		{`REVOKE INSERT ON outbox_audit FROM {role}`, `GRANT INSERT ON outbox_audit TO {role}`, pause, "outbox_audit", 403, 200},
		{`REVOKE INSERT ON outbox_replays FROM {role}`, `GRANT INSERT ON outbox_replays TO {role}`, again, "outbox_replays", 501, 200},
		{`ALTER TABLE own RENAME COLUMN tenant_id TO other`, `ALTER TABLE own RENAME COLUMN other TO tenant_id`, list, "tenant_id", 501, 200},
		{`ALTER TABLE own RENAME TO gone`, `ALTER TABLE gone RENAME TO own`, list, "own", 501, 200},
	} {
		o.exec(t, strings.ReplaceAll(c.away, "{role}", name))
		until(c.away, c.status, c.request, c.says)
		o.exec(t, strings.ReplaceAll(c.back, "{role}", name))
		until(c.back, c.well, c.request)
	}
	o.exec(t, `ALTER TABLE own DROP COLUMN topic`)
	until("a column that may be missing", http.StatusOK, list)
	until("replays without that column", http.StatusOK, again)
}
