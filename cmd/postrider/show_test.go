package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/chaos"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// A show on real servers: each mishap happens once, and the verdict is that every event came once, in order.
func TestAShowEndsWithAVerdict(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	p := clustertest.Launch(t, "show", nil, "dev", "--chaos", "--chaos-duration=0s", "--seed=3", "--partitions=16", "--http-addr=off",
		"--redact-pointer=/order", "--json") // the workers have it, too: else each event would be another than was expected
	if status := p.Exit(t); status != exitOK {
		t.Fatalf("status %d: %s%s", status, p.Stdout(), p.Stderr())
	}
	var verdict verdictBody
	if err := json.Unmarshal([]byte(p.Stdout()), &verdict); err != nil {
		t.Fatalf("%v: %s", err, p.Stdout())
	}
	if !verdict.OK || verdict.Seed != 3 || verdict.Committed == 0 || verdict.Received != verdict.Committed || verdict.LatencyP50 == 0 {
		t.Errorf("the verdict is %s", p.Stdout())
	}
	kinds := map[string]int{}
	for _, m := range verdict.Mishaps {
		kinds[m.Kind] = m.Times
	}
	for _, kind := range []string{"worker killed", "worker frozen", "broker's leader stopped", "PostgreSQL restarted"} {
		if kinds[kind] != 1 {
			t.Errorf("%s: %d times", kind, kinds[kind])
		}
	}
}

// aShow is a show whose output is read.
func aShow(out *bytes.Buffer) *show {
	return &show{
		dev:  &dev{cmd: &devCmd{showFlags: showFlags{ChaosDuration: time.Minute}}, session: &session{stdout: out, stderr: out}, partitions: 64, monitor: "http://127.0.0.1:8080/"},
		seed: 7,
	}
}

func TestALostEventBreaksTheVerdict(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]chaos.Verdict{
		"lost":          {Report: ledger.Report{Committed: 10, Received: 9, Lost: 1}},
		"not recovered": {Report: ledger.Report{Committed: 10, Received: 10}, Failure: errors.New("waited in vain")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := aShow(&out).verdict(verdict); !errors.Is(err, errSilent) || !strings.Contains(out.String(), "BROKEN") || !strings.Contains(out.String(), "--seed=7") {
				t.Errorf("%v: %s", err, &out)
			}
		})
	}
	var out bytes.Buffer
	if err := aShow(&out).verdict(chaos.Verdict{Report: ledger.Report{Committed: 10, Received: 10}}); err != nil || !strings.Contains(out.String(), "every event once") {
		t.Errorf("%v: %s", err, &out)
	}
}

// The screen has what a show is about, in 80 columns.
func TestTheShowsScreen(t *testing.T) {
	t.Parallel()
	state := chaos.State{
		Phase: chaos.Draining, Elapsed: 100 * time.Minute, Committed: 12_345_678, Received: 12_345_600, UnderWay: 78,
		Members: []chaos.Member{{Number: 1, PID: 4194303, Running: true, Partitions: 64}, {Number: 2, Running: true, Frozen: true}, {Number: 3}},
		Quiet:   chaos.Quiet{Events: 10, P50: 3 * time.Millisecond, P99: 999 * time.Millisecond},
	}
	for range 2 * latestIncidents {
		state.Incidents = append(state.Incidents, chaos.Incident{Kind: "broker's leader stopped", Text: "stopped node 2, the broker's leader", Then: "delivery went on", Took: 99 * time.Second})
	}
	screen := aShow(&bytes.Buffer{}).screen(state)
	for line := range strings.Lines(screen) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, part := range []string{"seed 7", "12,345,678", "under way 78", "frozen", "killed", "20×", "p50 3.0 ms", "http://127.0.0.1:8080/"} {
		if !strings.Contains(screen, part) {
			t.Errorf("%q is missing:\n%s", part, screen)
		}
	}
	if n := strings.Count(screen, "delivery went on"); n != latestIncidents {
		t.Errorf("%d mishaps are shown", n)
	}
}

var anyFigure = regexp.MustCompile(`[0-9][0-9.,:]*`)

// The README shows a verdict as a show prints it, with other figures.
func TestTheReadmeShowsAVerdict(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "The demo's verdict:\n```\n")
	shown, _, found := strings.Cut(shown, "```")
	verdict := chaos.Verdict{Report: ledger.Report{Committed: 10, Received: 10}}
	verdict.Quiet = chaos.Quiet{Events: 10, P50: time.Millisecond, P99: time.Millisecond}
	for _, kind := range []string{"worker frozen", "PostgreSQL restarted", "worker killed", "broker's leader stopped"} {
		verdict.Incidents = append(verdict.Incidents, chaos.Incident{Kind: kind, Took: time.Second})
	}
	var out bytes.Buffer
	if err := aShow(&out).verdict(verdict); err != nil {
		t.Fatal(err)
	}
	plain := func(text string) string { return anyFigure.ReplaceAllString(text, "1") }
	if !found || strings.Count(shown, "\n") < 6 {
		t.Errorf("README.md shows\n%s", shown)
	}
	for line := range strings.Lines(shown) { // the kinds come in any order
		if !strings.Contains(plain(out.String()), plain(line)) {
			t.Errorf("README.md shows\n%s\nand a show says\n%s", line, &out)
		}
	}
}
