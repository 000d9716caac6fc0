package ui_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/ui"
)

// Times before now are the database's, as those of its rows are: the monitor's machine may be an hour ahead.
func TestTimesBeforeNowAreTheDatabases(t *testing.T) {
	t.Parallel()
	server, clock := pgtest.Movable(t, localpg.Config{})
	migrator, err := schema.New(schema.Config{DatabaseURL: server.URL(), Schema: "public", Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Move(t, -time.Hour)
	o := outboxAt(t, server.URL())
	o.append(t, "s")
	o.exec(t, `INSERT INTO outbox_ownership (kind, worker_id, hostname, partition_keys, lease_epochs) VALUES ('taken', gen_random_uuid(), 'me', '{0}', '{1}')`)
	m := o.serve(t, ui.Options{})
	for path, want := range map[string]string{
		"/api/v1/messages?since=10m": `"stream_id":"s"`, "/messages?since=10m": ">s<",
		"/api/v1/ownership?since=10m": `"me"`,
	} {
		if got := call(t, m, http.MethodGet, path); got.StatusCode != http.StatusOK || !strings.Contains(got.text, want) {
			t.Errorf("%s: status %d without %s: %s", path, got.StatusCode, want, got.text)
		}
	}
}
