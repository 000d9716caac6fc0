package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/bench"
	"github.com/postrider/postrider/internal/testkit/clustertest"
)

func TestBenchListsItsScenarios(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := call(t, "bench", "--list")
	if code != exitOK {
		t.Fatal(stderr)
	}
	for _, s := range bench.Scenarios() {
		if !strings.Contains(stdout, s.Name) || !strings.Contains(stdout, s.About) {
			t.Errorf("%s is missing: %s", s.Name, stdout)
		}
	}
}

func TestBenchRefusesBadSettings(t *testing.T) {
	t.Parallel()
	const data = "--data=../../testdata/repo-history-12k.jsonl.gz"
	for _, c := range []complaint{
		{[]string{"bench"}, exitRefused, []string{"--data"}},
		{[]string{"bench", "--data=nothing"}, exitRefused, []string{"data", "nothing"}},
		{[]string{"bench", data, "--only=drian"}, exitRefused, []string{"drian", "drain, replicated"}},
		{[]string{"bench", data, "--events=5"}, exitRefused, []string{"events", "64"}},
		{[]string{"bench", data, "--match=nothing such"}, exitRefused, []string{"match", "nothing such"}},
		{[]string{"bench-part", "nothing"}, exitFailed, []string{"nothing"}},
	} {
		c.check(t)
	}
}

// The program as people start it, with few events: table, JSON and chart.
func TestBenchWritesItsReport(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	dir := t.TempDir()
	report, chart := filepath.Join(dir, "report.json"), filepath.Join(dir, "chart.svg")
	p := clustertest.Launch(t, "bench", nil, "bench", "--data=../../testdata/repo-history-12k.jsonl.gz", "--quick", "--events=300", "--foreign=1",
		"--only=drain", "--match="+"dedupe, by stream", "--json="+report, "--svg="+chart)
	if code := p.Exit(t); code != exitOK {
		t.Fatal(p.Stderr())
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 1 || len(r.Results[0].Cases) != 2 || r.Results[0].Cases[1].Ratios[bench.ValueRate].Median <= 0 || !r.Quick {
		t.Errorf("%s", text)
	}
	if drawn, err := os.ReadFile(chart); err != nil || !strings.HasPrefix(string(drawn), "<svg ") {
		t.Errorf("%.80s, %v", drawn, err)
	}
	if !strings.Contains(p.Stderr(), "2/2 round 1 drain") {
		t.Errorf("there is no progress: %s", p.Stderr())
	}
}
