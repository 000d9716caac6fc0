package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// Where workers do not remove records, doctor counts them and the command removes all but the last ones; who comes next goes on.
func TestRecordsAreTrimmedByCommand(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 2, NoBatches: true, Flags: []string{"--keep-records=0", "--batch-size=1"}})
	first := c.Start(t, 1)[0]
	c.Subscribe(t, nil)
	c.Backlog(t, 400)
	c.WaitDrained(t)
	on := []string{"--database-url=" + c.DatabaseURL, "--nats-url=" + c.NATS.URL()}
	if f := diagnose(t, exitOK, on...)["records"]; f.Level != levelOK || !strings.HasPrefix(f.Detail, "802 records of 2 partitions") || !strings.Contains(f.Detail, "may remove") {
		t.Errorf("doctor finds %+v, want two records for each of 400 events, and two fences", f)
	}
	code, stdout, stderr := call(t, append([]string{"partitions", "trim", "--keep=100", "--json"}, on...)...)
	var done struct{ Removed, Left int }
	if err := json.Unmarshal([]byte(stdout), &done); err != nil || code != exitOK || done.Removed < 50 || done.Removed+done.Left != 802 {
		t.Errorf("status %d: %s%s, want all but 100 of the partition removed whose record does not begin the stream", code, stdout, stderr)
	}
	if code, _, stderr := call(t, append([]string{"partitions", "trim", "--keep=99"}, on...)...); code != exitRefused || !strings.Contains(stderr, "--keep") {
		t.Errorf("status %d: %s", code, stderr)
	}
	first.Signal(t, syscall.SIGTERM)
	if code := first.Exit(t); code != exitOK {
		t.Errorf("the first worker ended with %d", code)
	}
	c.Start(t, 1)
	c.Backlog(t, 50)
	c.Verify(t)
}
