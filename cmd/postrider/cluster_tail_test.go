package main

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// What is late within its partition as the promise allows it, a scheduled event, is told and is no fault; the verdict says only what a
// subscriber knows.
func TestTailAllowsWhatThePromiseAllows(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 1})
	c.Start(t, 1)
	if _, err := c.Pool.Exec(t.Context(), `SELECT outbox_append('later', 'thing.done', '{}', available_at => clock_timestamp() + interval '2 seconds')`); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		appendEvent(t, c, "now", 1)
	}
	c.WaitDrained(t)
	tail := func(args ...string) (int, map[string]any, string) {
		t.Helper()
		code, stdout, stderr := call(t, append([]string{"tail", "--nats-url=" + c.NATS.URL(), "--all", "--json", "--limit=4"}, args...)...)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		return code, read[map[string]any](t, lines[len(lines)-1]), stderr
	}
	code, verdict, stderr := tail()
	if code != exitOK || verdict["ok"] != true || verdict["received"] != 4.0 || verdict["late_in_partition"] != 1.0 || verdict["reordered"] != 0.0 {
		t.Errorf("status %d, %v", code, verdict)
	}
	if !strings.Contains(stderr, "late ") || strings.Contains(stderr, "FAULT") {
		t.Errorf("it said: %s", stderr)
	}
	for _, name := range []string{"committed", "lost", "events_per_second", "latency_p50_seconds"} {
		if _, there := verdict[name]; there {
			t.Errorf("the verdict claims to know %s: %v", name, verdict)
		}
	}
	if code, verdict, stderr := tail("--ordering=stream"); code != exitOK || verdict["late_in_partition"] != nil || strings.Contains(stderr, "late") {
		t.Errorf("--ordering stream: status %d, %v, %s", code, verdict, stderr)
	}
	if code, verdict, stderr := tail("--strict"); code != exitFailed || verdict["reordered"] != 1.0 || !strings.Contains(stderr, "FAULT reordered_partition") {
		t.Errorf("--strict: status %d, %v, %s", code, verdict, stderr)
	}
	complaint{[]string{"tail", "--nats-url=" + c.NATS.URL(), "--strict", "--ordering=stream"}, exitRefused, []string{"--strict", "--ordering"}}.check(t)
}

// Each line of `run --json` counts its own second, leases included.
func TestLinesCountTheirOwnSecond(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	w := c.Start(t, 1)[0]
	w.WaitTick(t, "a second with nothing to do", func(clustertest.Tick) bool { return true })
	w.WaitTick(t, "another one", func(clustertest.Tick) bool { return true })
	acquired := 0.0
	lines := strings.Split(strings.TrimSpace(w.Stdout()), "\n")
	for _, line := range lines {
		tick := read[map[string]any](t, line)
		acquired += tick["leases_acquired"].(float64) //nolint:errcheck // a number
		for _, name := range []string{"at", "worker_id", "duration_seconds", "backoff_seconds", "leases_released", "leases_lost", "owned_partitions"} {
			if _, there := tick[name]; !there {
				t.Errorf("a line lacks %s: %s", name, line)
			}
		}
	}
	if last := read[map[string]any](t, lines[len(lines)-1]); acquired > 4 || last["leases_acquired"] != 0.0 {
		t.Errorf("%v leases were counted, the last line is %v", acquired, last)
	}
}
