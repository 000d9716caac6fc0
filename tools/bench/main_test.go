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

// charts is what the figures and charts of docs/performance.md begin with.
const charts = "../../docs/images/benchmark"

// The charts of the documentation are those that the program draws from the report beside them, and that one is of a measurement.
func TestTheDocumentationHasTheCharts(t *testing.T) {
	t.Parallel()
	for name, scenarios := range map[string]string{"drain": "drain,replicated", "latency": "steady"} {
		drawn := filepath.Join(t.TempDir(), "chart.svg")
		code, stdout, stderr := call(t, "--from="+charts+".json", "--only="+scenarios, "--svg="+drawn)
		if code != exitOK || strings.Contains(stdout, "QUICK") || !strings.Contains(stdout, ", by partition") {
			t.Errorf("status %d: %s%s", code, stdout, stderr)
		}
		if want, got := read(t, drawn), read(t, charts+"-"+name+".svg"); got != want {
			t.Errorf("%s-%s.svg is another chart; `make bench/draw` draws it", charts, name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, text string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
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
		{[]string{program, some, "--match=("}, []string{"match", "("}},
		{[]string{program, "--from=" + charts + ".json"}, []string{"--program", "--from"}},
		{[]string{"--from=nothing"}, []string{"--from", "nothing"}},
		{[]string{"--from=main.go"}, []string{"--from", "main.go"}},
		{[]string{"--from=" + write(t, "{}")}, []string{"--from", "bench --json"}},
		{[]string{"--from=" + charts + ".json", "--only=drian"}, []string{"--only", "drian"}},
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
		"--events=300", "--foreign=1", "--only=drain", "--match=postrider one by one, by stream", "--json="+report, "--svg="+chart)
	if code := p.Exit(t); code != exitOK {
		t.Fatal(p.Stderr())
	}
	text := read(t, report)
	var r measure.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 1 || len(r.Results[0].Cases) != 2 || r.Results[0].Cases[1].Ratios[measure.ValueRate].Median <= 0 || !r.Quick {
		t.Errorf("%s", text)
	}
	if version := clustertest.Launch(t, "version", nil, "version"); version.Exit(t) != exitOK || !strings.Contains(version.Stdout(), r.Version) || r.Version == "" {
		t.Errorf("the version is %q, not that of the program", r.Version)
	}
	if drawn := read(t, chart); !strings.HasPrefix(drawn, "<svg ") {
		t.Errorf("%.80s", drawn)
	}
	if !strings.Contains(p.Stderr(), "2/2 round 1 drain") {
		t.Errorf("there is no progress: %s", p.Stderr())
	}
}
