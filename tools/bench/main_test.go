package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/tools/bench/measure"
)

// asProgram set to 1 makes this test binary the program.
const asProgram = "BENCH_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		main()
	}
	clustertest.Main(m)
}

const data = "../../testdata/repo-history-12k.jsonl.gz"

func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestBenchListsItsScenarios(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := call(t, "--list")
	if code != exitOK {
		t.Fatal(stderr)
	}
	for _, s := range measure.Scenarios() {
		if !strings.Contains(stdout, s.Name) || !strings.Contains(stdout, s.About) {
			t.Errorf("%s is missing: %s", s.Name, stdout)
		}
	}
}

// The help names every flag, and shows how they are used.
func TestBenchShowsItsHelp(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := call(t, "--help")
	if code != exitOK || stderr != "" {
		t.Fatalf("status %d: %s", code, stderr)
	}
	for _, want := range []string{"--program=PROGRAM", "--against=PROGRAM", "--relay=FLAG", "--json=FILE", "bench --list"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the help lacks %q: %s", want, stdout)
		}
	}
}

func TestBenchRefusesBadSettings(t *testing.T) {
	t.Parallel()
	program, some := "--program="+clustertest.Binary(t), "--data="+data
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{some}, []string{"--program", "make build"}},
		{[]string{program}, []string{"--data"}},
		{[]string{some, "--program=nothing"}, []string{"program", "nothing"}},
		{[]string{some, "--program=" + data}, []string{"program", data}},
		{[]string{program, "--data=nothing"}, []string{"data", "nothing"}},
		{[]string{program, some, "--only=drian"}, []string{"drian", "drain, replicated"}},
		{[]string{program, some, "--events=5"}, []string{"events", "64"}},
		{[]string{program, some, "--match=nothing such"}, []string{"match", "nothing such"}},
		{[]string{program, some, "--roundz=5"}, []string{"--roundz", "--help"}},
	} {
		code, stdout, stderr := call(t, c.args...)
		if code != exitRefused || stdout != "" {
			t.Errorf("%v: status %d: %s%s", c.args, code, stdout, stderr)
		}
		for _, want := range c.says {
			if !strings.Contains(stderr, want) {
				t.Errorf("%v: it does not say %q: %s", c.args, want, stderr)
			}
		}
	}
}

func TestUnknownPartsAreRefused(t *testing.T) {
	t.Parallel()
	var out, err bytes.Buffer
	if code := runPart(t.Context(), "nothing", strings.NewReader(""), &out, &err); code != exitFailed || !strings.Contains(err.String(), "nothing") {
		t.Errorf("status %d: %s", code, err.String())
	}
}

// The program as people start it, with few events: table, JSON and chart.
func TestBenchWritesItsReport(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	report, chart := filepath.Join(dir, "report.json"), filepath.Join(dir, "chart.svg")
	p := clustertest.LaunchBinary(t, "bench", own, []string{asProgram + "=1"}, "--program="+clustertest.Binary(t), "--data="+data, "--quick",
		"--events=300", "--foreign=1", "--only=drain", "--match=dedupe, by stream", "--json="+report, "--svg="+chart)
	if code := p.Exit(t); code != exitOK {
		t.Fatal(p.Stderr())
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r measure.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 1 || len(r.Results[0].Cases) != 2 || r.Results[0].Cases[1].Ratios[measure.ValueRate].Median <= 0 || !r.Quick {
		t.Errorf("%s", text)
	}
	if !strings.HasPrefix(r.Version, "devel") {
		t.Errorf("the version is %q, not that of the program", r.Version)
	}
	if drawn, err := os.ReadFile(chart); err != nil || !strings.HasPrefix(string(drawn), "<svg ") {
		t.Errorf("%.80s, %v", drawn, err)
	}
	if !strings.Contains(p.Stderr(), "2/2 round 1 drain") {
		t.Errorf("there is no progress: %s", p.Stderr())
	}
}
