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

	"github.com/jedib0t/go-pretty/v6/table"

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

// The screen has what a show is about, in the rows and columns that there are.
func TestTheShowsScreen(t *testing.T) {
	t.Parallel()
	state := chaos.State{
		Phase: chaos.Draining, Elapsed: 100 * time.Minute, Committed: 12_345_678, Received: 12_345_600, UnderWay: 78, Lost: 5,
		Members: []chaos.Member{{Number: 1, PID: 4194303, Running: true, Partitions: 64}, {Number: 2, Running: true, Frozen: true}, {Number: 3}},
		Quiet:   chaos.Quiet{Events: 10, P50: 3 * time.Millisecond, P99: 999 * time.Millisecond},
	}
	for _, kind := range []string{"broker's leader stopped", "worker killed", "worker frozen", "PostgreSQL restarted"} {
		for range 20 {
			state.Incidents = append(state.Incidents, chaos.Incident{Kind: kind, Text: "stopped node 2, the broker's leader", Then: "delivery went on", Took: 99 * time.Second})
		}
	}
	v := aShow(&bytes.Buffer{})
	v.databaseURL = "postgres://postgres:ABCDEFGHIJKLMNOPQRSTUVWXYZ@127.0.0.1:20000/postgres?sslmode=disable"
	v.natsURL = "nats://127.0.0.1:20001,nats://127.0.0.1:20002,nats://127.0.0.1:20003"
	for _, size := range [][2]int{{80, 24}, {120, 50}, {40, 10}} {
		lines := v.screen(state, size[0], size[1])
		if len(lines) > size[1] {
			t.Errorf("%d lines at %v", len(lines), size)
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > size[0] {
				t.Errorf("%d columns at %v: %s", n, size, line)
			}
		}
	}
	screen := strings.Join(v.screen(state, 80, 24), "\n")
	for _, part := range []string{"while things break", "seed 7", "12,345,678", "under way 78", "lost 5", "frozen", "killed", "20×", "p50 3.0 ms", "http://127.0.0.1:8080/", v.natsURL, v.databaseURL} {
		if !strings.Contains(screen, part) && !strings.Contains(strings.ReplaceAll(screen, "\n", ""), part) {
			t.Errorf("%q is missing:\n%s", part, screen)
		}
	}
	if n := strings.Count(screen, "delivery went on"); n < 3 {
		t.Errorf("%d mishaps are shown", n)
	}
}

// Tables fit the terminal, and lose nothing: words are cut that --wide and --json show, texts go on below.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	const id, why = "0199a2f0-5b1c-7c00-8000-00000a1b2c3d", "dead: 9 events, until a person acts on them; a transaction of psql holds back order"
	header := table.Row{"partition", "owner", "lease left", "epoch", "pending", "failed", "blocked", "dead", "scheduled", "oldest", "why"}
	rows := []table.Row{{1, id, "8.1s", int64(3), int64(120), int64(0), int64(0), int64(9), int64(0), "13m29s", why}, {22, "free", "–", int64(3), int64(1), int64(0), int64(0), int64(0), int64(0), "0s", ""}}
	for _, width := range []int{80, 70, 100} {
		for line := range strings.Lines(fitTable(width, header, rows)) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width || strings.HasSuffix(line, " \n") {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
	}
	fitted := fitTable(80, header, rows)
	for _, part := range []string{"a1b2c3d", "13m29s", "0 or empty in all rows: failed, blocked, scheduled"} {
		if !strings.Contains(fitted, part) {
			t.Errorf("%q is missing:\n%s", part, fitted)
		}
	}
	if got := strings.Join(strings.Fields(fitted), " "); !strings.Contains(got, why) {
		t.Errorf("the reason is cut:\n%s", fitted)
	}
	whole := fitTable(0, header, rows)
	for line := range strings.Lines(whole) {
		if strings.HasSuffix(line, " \n") {
			t.Errorf("blanks at the end: %q", line)
		}
	}
	if !strings.Contains(whole, id) || !strings.Contains(whole, why) || strings.Count(whole, "\n") != 3 {
		t.Errorf("a pipe gets\n%s", whole)
	}
}

// A time that is cut still tells the minute.
func TestTimesFitTheTerminal(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC().Format(time.RFC3339)
	header := table.Row{"sequence", "partition", "stream", "type", "state", "settled or due", "stream sequence"}
	rows := []table.Row{{1, 45, "order-1", "order.placed", "published", at, "166"}, {2, 4, "order-2", "order.placed", "scheduled", "due 9999-12-31T23:59:59Z", ""}}
	fitted := fitTable(80, header, rows)
	if minute := at[5:10] + " " + at[11:16] + "Z"; !strings.Contains(fitted, minute) || !strings.Contains(fitted, "due 9999") {
		t.Errorf("%s is cut:\n%s", minute, fitted)
	}
	if whole := fitTable(0, header, rows); !strings.Contains(whole, at) {
		t.Errorf("a pipe gets\n%s", whole)
	}
	header = table.Row{"sequence", "partition", "stream", "type", "state", "attempts", "settled or due", "stream sequence"}
	rows = []table.Row{{4, 48, "a-rather-long-stream", "order.something.happened", "published", 1, at, "177"}}
	fitted = fitTable(80, header, rows)
	for line := range strings.Lines(fitted) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if minute := at[11:16] + "Z"; !strings.Contains(fitted, minute) {
		t.Errorf("%s is cut:\n%s", minute, fitted)
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
