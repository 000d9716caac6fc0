package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/partition"
)

// A paused partition delivers nothing, whoever owns it, until it is resumed.
func TestPausedPartitionsDeliverNothing(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 2})
	workers := c.Start(t, 1)
	s := c.Subscribe(t, nil)
	streams := map[partition.ID]string{}
	for i := 0; len(streams) < 2; i++ {
		name := fmt.Sprintf("stream-%d", i)
		streams[partition.Of(name, 2)] = name
	}
	if got := operate(t, c, "partitions", "pause", "1", "--reason", "consumer is being repaired"); got != "paused 1 partition: 1\n" {
		t.Errorf("it said %q", got)
	}
	held := appendEvent(t, c, streams[1], 1)
	flows := func() {
		t.Helper()
		before := s.Received()
		appendEvent(t, c, streams[0], 1)
		s.WaitReceived(t, before+1-s.Received())
		if n := c.Count(t, `SELECT count(*) FROM outbox WHERE global_sequence = $1`, held); n != 1 {
			t.Fatal("the paused partition delivered")
		}
	}
	flows()
	flows() // the claim of this one saw the paused one's event for certain

	workers[0].Signal(t, syscall.SIGTERM)
	workers[0].Exit(t)
	c.Start(t, 1)
	flows()
	flows()

	got := operate(t, c, "partitions", "resume", "--all", "--json")
	if want := `{"action":"resume","changed":[1],"unchanged":[0],"dry_run":false}` + "\n"; got != want {
		t.Errorf("it said %q, want %q", got, want)
	}
	s.WaitReceived(t, 5-s.Received())
	c.WaitDrained(t)
}

func TestPauseTells(t *testing.T) {
	t.Parallel()
	_, on := deadDatabase(t)
	for _, c := range []struct {
		args   []string
		stdout string
	}{
		{on("partitions", "pause", "--all", "--dry-run"), "would pause 8 partitions: 0-7\n"},
		{on("partitions", "pause", "3", "1"), "paused 2 partitions: 1 3\n"},
		{on("partitions", "pause", "3", "4", "5"), "paused 2 partitions: 4-5; already so: 3\n"},
		{on("partitions", "resume", "2"), "resumed 0 partitions; already so: 2\n"},
	} {
		if code, stdout, stderr := call(t, c.args...); code != exitOK || stdout != c.stdout {
			t.Errorf("%v: status %d, %q%s, want %q", c.args, code, stdout, stderr, c.stdout)
		}
	}
}

// Whoever asks for what is not taken back hears once of all that is missing or in the way.
func TestSplitAsksOnce(t *testing.T) {
	t.Parallel()
	address, on := deadDatabase(t)
	pool := pgtest.Pool(t, address)
	if _, err := pool.Exec(t.Context(), `CREATE VIEW report AS SELECT sequence FROM events`); err != nil {
		t.Fatal(err)
	}
	wantSaid := func(args []string, status int, says ...string) {
		t.Helper()
		code, stdout, stderr := call(t, on(args...)...)
		for _, text := range says {
			if code != status || !strings.Contains(stdout+stderr, text) {
				t.Errorf("%v: status %d, %q lacks %q", args, code, stdout+stderr, text)
			}
		}
	}
	wantSaid([]string{"events", "split"}, exitRefused, "say --yes", "--reason", "in the way", "report")
	wantSaid([]string{"events", "split", "--dry-run"}, exitOK, "in the way", "report")
	if _, err := pool.Exec(t.Context(), `DROP VIEW report`); err != nil {
		t.Fatal(err)
	}
	wantSaid([]string{"events", "split"}, exitRefused, "say --yes", "--reason")
	wantSaid([]string{"events", "split", "--yes", "--reason=r"}, exitOK, "events are in parts now")
	wantSaid([]string{"events", "begin"}, exitOK, "has begun")
	wantSaid([]string{"events", "prune", "--keep=1", "--discard"}, exitOK, "events fill no more than 1 part")
	if _, err := pool.Exec(t.Context(), `SELECT outbox_append('a', 't', '{}')`); err != nil {
		t.Fatal(err)
	}
	wantSaid([]string{"events", "prune", "--keep=1", "--discard"}, exitRefused, "this would drop 1 part ", "say --yes", "--reason")
}
