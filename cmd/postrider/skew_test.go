package main

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/schema"
)

// Times from now are the database's, whose clock alone gives times: this machine's may be an hour ahead.
func TestTimesFromNowAreTheDatabases(t *testing.T) {
	t.Parallel()
	server, clock := pgtest.Movable(t, localpg.Config{})
	migrator, err := schema.New(schema.Config{DatabaseURL: server.URL(), Schema: "public", Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Move(t, -time.Hour)
	pool := pgtest.Pool(t, server.URL())
	for _, sql := range []string{
		`SELECT outbox_append('later', 'thing.done', '{}', available_at => clock_timestamp() + interval '1 day')`,
		`SELECT outbox_append('dead', 'thing.done', '{}')`,
		`UPDATE outbox SET parked = true, dead_at = clock_timestamp(), attempts = 8, last_error = 'no' WHERE stream_id = 'dead'`,
		`INSERT INTO outbox_ownership (kind, worker_id, hostname, partition_keys, lease_epochs) VALUES ('taken', gen_random_uuid(), 'me', '{0}', '{1}')`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"dead", "list", "--since=10m", "--json"}, `"stream_id":"dead"`},
		{[]string{"replay", "start", "--since=10m", "--dry-run", "--json"}, `"waiting_in_outbox":2`},
		{[]string{"partitions", "history", "--since=10m", "--json"}, `"me"`},
		{[]string{"messages", "move", "--stream=later", "--at=0s"}, "moved 1 message"},
		{[]string{"messages", "list", "--stream=later", "--json"}, `"state":"pending"`},
	} {
		code, stdout, stderr := call(t, append(c.args, "--database-url="+server.URL())...)
		if code != exitOK || !strings.Contains(stdout, c.want) {
			t.Errorf("%v: status %d, want %q: %s%s", c.args, code, c.want, stdout, stderr)
		}
	}
}
