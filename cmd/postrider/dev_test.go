package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// historyEvents is how many events the file in testdata holds.
const historyEvents = 11_992

// The whole thing on one machine: PostgreSQL, NATS, three workers, real events, and the built-in checker.
func TestDevExitWhenDrained(t *testing.T) { //nolint:paralleltest // fills the machine
	devDrained(t)
}

func TestDevOnThreeNodes(t *testing.T) { //nolint:paralleltest // fills the machine
	slow.Test(t)
	devDrained(t, "--nats-nodes=3")
}

func devDrained(t *testing.T, flags ...string) {
	t.Helper()
	args := append([]string{
		"dev", "--exit-when-drained", "--json", "--http-addr=127.0.0.1:0",
		"--import", filepath.Join("..", "..", "testdata", "repo-history-12k.jsonl.gz"),
	}, flags...)
	dev := clustertest.Launch(t, "dev", nil, args...)
	if code := dev.Exit(t); code != exitOK {
		t.Errorf("it ended with %d", code)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(dev.Stdout()), &object); err != nil {
		t.Fatalf("standard output is not one JSON object: %v\n%s", err, dev.Stdout())
	}
	t.Log(dev.Stdout())
	keys := []string{
		"committed", "duplicates", "events_per_second", "latency_p50_ms", "latency_p99_ms",
		"lost", "partitions", "received", "reordered", "workers",
	}
	if got := slices.Sorted(maps.Keys(object)); !slices.Equal(got, keys) {
		t.Errorf("keys %v, want %v", got, keys)
	}
	for key, want := range map[string]float64{
		"lost": 0, "reordered": 0, "duplicates": 0, "workers": 3, "partitions": 64,
		"committed": historyEvents, "received": historyEvents,
	} {
		if object[key] != want {
			t.Errorf("%s is %v, want %v", key, object[key], want)
		}
	}
	for _, key := range []string{"events_per_second", "latency_p50_ms", "latency_p99_ms"} {
		if n, ok := object[key].(float64); !ok || n <= 0 {
			t.Errorf("%s is %v", key, object[key])
		}
	}
}
