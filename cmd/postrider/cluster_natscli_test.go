package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// natscliModule builds the official command line of NATS in a module of its own, so that ours does not depend on it.
const natscliModule = `module scratch

go 1.26

require github.com/nats-io/natscli v0.3.0
`

// The official command line reads the events that Postrider published, with their headers.
func TestNATSCommandLineReadsTheEvents(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	slow.Test(t)
	cli := buildNATSCLI(t)
	c := clustertest.New(t, clustertest.Config{})
	c.Backlog(t, 200)
	c.Start(t, 1)
	c.Subscribe(t, nil)
	report := c.Verify(t)

	// Without a consumer of its own, the command line at this version does not filter.
	runCLI(t, cli, c, "consumer", "add", "EVENTS", "reader", "--filter=events.>", "--pull", "--defaults")
	output := runCLI(t, cli, c, "sub", "--stream=EVENTS", "--durable=reader", fmt.Sprintf("--count=%d", report.Received))
	if n := strings.Count(output, "events.default.load%2Ego"); n < report.Received {
		t.Errorf("it shows %d subjects of %d events:\n%s", n, report.Received, head(output))
	}
	for _, header := range []string{
		"Outbox-Event-Id", "Outbox-Sequence", "Outbox-Partition", "Outbox-Stream", "Outbox-Stream-Version", "Outbox-Type",
	} {
		if n := strings.Count(output, header+": "); n != report.Received {
			t.Errorf("it shows header %s %d times, want %d:\n%s", header, n, report.Received, head(output))
		}
	}
	rows, err := c.Pool.Query(t.Context(), `SELECT event_id::text, convert_from(payload, 'UTF8') FROM events`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, payload string
		if err := rows.Scan(&id, &payload); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(output, "Outbox-Event-Id: "+id) || !strings.Contains(output, payload) {
			t.Errorf("it does not show event %s", id)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if info := runCLI(t, cli, c, "stream", "info", "EVENTS"); !strings.Contains(info, "events.>") {
		t.Errorf("stream info: %s", info)
	}
}

func buildNATSCLI(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte(natscliModule), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "nats")
	for _, args := range [][]string{
		{"mod", "download", "github.com/nats-io/natscli"},
		{"get", "github.com/nats-io/natscli/nats@v0.3.0"},
		{"build", "-o", path, "github.com/nats-io/natscli/nats"},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if output, err := cmd.CombinedOutput(); err != nil {
			if args[0] == "build" {
				t.Fatalf("go %v: %v\n%s", args, err, output)
			}
			t.Skipf("the nats command line cannot be had: go %s: %v: %s", strings.Join(args, " "), err, lastLine(string(output)))
		}
	}
	return path
}

func runCLI(t *testing.T, cli string, c *clustertest.Cluster, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), cli, append([]string{"--server=" + c.NATS.URL()}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("nats %s: %v\n%s", strings.Join(args, " "), err, head(string(output)))
	}
	return string(output)
}

func head(text string) string { return text[:min(len(text), 2000)] }

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
