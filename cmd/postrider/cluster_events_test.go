package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// Under load the events are put into parts, ten of these begin, a worker is killed, and the oldest are archived and dropped.
// Nothing is lost or out of order, no failover is taken notice of, replay and the search for gaps are right afterwards, and the files
// are what was dropped.
func TestTenPartsOfEventsPassUnderLoad(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 16, Flags: []string{"--lease-ttl=2s"}})
	events := func(args ...string) *clustertest.Process {
		return clustertest.Launch(t, "events", c.Environment(), append([]string{"events"}, args...)...)
	}
	must := func(args ...string) string {
		t.Helper()
		p := events(args...)
		if status := p.Exit(t); status != exitOK {
			t.Fatalf("events %v: status %d: %s", args, status, p.Stderr())
		}
		return p.Stdout()
	}
	workers := c.Start(t, 3)
	c.Subscribe(t, nil)
	load := c.Produce(t, clustertest.Load{Streams: 300})
	load.WaitCommitted(t, 200)
	must("split", "--yes", "--reason=a test")
	for part := int64(1); part <= 10; part++ {
		load.WaitCommitted(t, 200+100*part)
		if said := must("begin"); said != fmt.Sprintf("part %d has begun\n", part) {
			t.Fatalf("begin says %q", said)
		}
		if part == 5 {
			workers[1].Signal(t, syscall.SIGKILL)
		}
	}
	load.WaitCommitted(t, 1400)
	c.WaitCount(t, 1, `SELECT count(*) WHERE NOT EXISTS (SELECT FROM outbox WHERE global_sequence < 8000000000000)`)
	folder := t.TempDir()
	if said := must("prune", "--keep=3", "--archive="+folder, "--yes", "--reason=a test"); strings.Count(said, "was dropped") != 8 {
		t.Errorf("prune says %s", said)
	}
	load.WaitCommitted(t, 1600)
	c.Verify(t)
	if p := clustertest.Launch(t, "gaps", c.Environment(), "gaps", "detect"); p.Exit(t) != exitOK {
		t.Errorf("gaps detect: %s%s", p.Stdout(), p.Stderr())
	}
	if n := c.Count(t, `SELECT count(*) FROM outbox_audit WHERE action = 'database.regressed'`); n != 0 {
		t.Errorf("%d alarms of a failover", n)
	}
	left := c.Count(t, `SELECT count(*) FROM events`)
	replay := clustertest.Launch(t, "replay", c.Environment(), "replay", "--all", "--to-sequence=10999999999999", "--yes", fmt.Sprint("--expect=", left))
	if status := replay.Exit(t); status != exitOK {
		t.Errorf("replay: status %d: %s", status, replay.Stderr())
	}
	c.Verify(t, clustertest.Replays)

	// The files hold what went, and an import has it as it was.
	other := pgtest.Migrated(t, 4)
	for part := range 8 {
		p := clustertest.Launch(t, "import", []string{"DATABASE_URL=" + other}, "import", "--audit-only", filepath.Join(folder, fmt.Sprintf("events-%d.jsonl.gz", part)))
		if status := p.Exit(t); status != exitOK {
			t.Fatalf("import: status %d: %s", status, p.Stderr())
		}
	}
	archived := c.Count(t, `SELECT sum((details ->> 'archived')::int) FROM outbox_audit WHERE action = 'events.drop'`)
	var back int
	if err := pgtest.Pool(t, other).QueryRow(t.Context(), `SELECT count(*) FROM events WHERE audit_only`).Scan(&back); err != nil || back != archived || back == 0 {
		t.Errorf("%d of %d archived events were imported: %v", back, archived, err)
	}
}
