package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/tools/bench/measure"
)

// latencyOf runs one round of -latency and returns its report, its table and its progress.
func latencyOf(t *testing.T, args ...string) (report measure.Report, table, progress string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	name := filepath.Join(t.TempDir(), "report.json")
	var stdout, stderr bytes.Buffer
	err := compare(ctx, append([]string{
		"-latency", "-program", clustertest.Binary(t), "-data", "../../testdata/repo-history-12k.jsonl.gz", "-quick", "-duration", "500ms", "-foreign", "1",
		"-json", name,
	}, args...), &stdout, &stderr)
	t.Logf("%s\n%s", stderr.String(), stdout.String())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return report, stdout.String(), stderr.String()
}

// judge checks that a case's values can be true.
func judge(t *testing.T, c *measure.CaseResult, table string) {
	t.Helper()
	if !strings.Contains(table, "\n"+c.Name+" ") || strings.Contains(c.Name, unknownVersion) {
		t.Errorf("the table does not name %q", c.Name)
	}
	v := func(name string) float64 { return c.Values[name].Median }
	if c.Samples[0].Events != 75 || v(measure.ValueRate) <= 0 { // 25 of them to warm up
		t.Errorf("%s: %+v", c.Name, c.Samples[0])
	}
	if strings.HasPrefix(c.Name, "transactions alone") {
		return
	}
	if v(measure.ValueP50) > v(measure.ValueP99) || v(measure.ValueP99) > v(measure.ValueMax) || v(measure.ValueMax) <= 0 ||
		v(measure.ValueDueP50) <= v(measure.ValueP50) || v(measure.ValueDueP99) <= v(measure.ValueP99) || v(measure.ValueMax) > 60_000 {
		t.Errorf("%s: %v", c.Name, c.Values)
	}
}

// Every system in Go receives once what was committed, and the table and the report say how late.
func TestEverySystemReceivesEverything(t *testing.T) {
	t.Parallel()
	report, table, progress := latencyOf(t)
	cases := report.Results[0].Cases
	if len(cases) != 3+len(systems()) {
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		judge(t, c, table)
	}
	if !strings.Contains(progress, "graphile-worker is left out") {
		t.Error("nothing says that graphile-worker is left out")
	}
}

// graphile-worker does so, too, where it can be installed.
func TestGraphileWorkerReceivesEverything(t *testing.T) {
	t.Parallel()
	slow.Test(t)
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := installGraphile(t.Context(), dir); err != nil {
		t.Skip("it cannot be installed here: ", err)
	}
	report, table, _ := latencyOf(t, "-graphile", dir, "-match", "graphile-worker")
	cases := report.Results[0].Cases
	if len(cases) != 3 { // with the base
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		judge(t, c, table)
	}
}

// Without node graphile-worker is left out, and a line says why.
func TestWithoutNodeALineSaysSo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var said []string
	if all := allSystems(t.Context(), t.TempDir(), func(line string) { said = append(said, line) }); len(all) != len(systems()) {
		t.Errorf("%d systems", len(all))
	}
	if len(said) != 1 || !strings.Contains(said[0], "left out") || !strings.Contains(said[0], "node") {
		t.Errorf("%q", said)
	}
}

// A system that loses an event ends the benchmark without a figure.
func TestALostJobEndsTheBenchmark(t *testing.T) {
	t.Parallel()
	slow.Test(t)
	lossy := systems()[1]
	producer := lossy.Producer
	lossy.Producer = func() (measure.Insert, error) {
		insert, err := producer()
		return func(ctx context.Context, tx pgx.Tx, e measure.PeerEvent) error {
			if e.Sequence == 60 {
				return nil
			}
			return insert(ctx, tx, e)
		}, err
	}
	report, err := measure.Run(t.Context(), measure.Config{
		Program: clustertest.Binary(t), Data: "../../testdata/repo-history-12k.jsonl.gz", Quick: true, Foreign: 1, Systems: []measure.System{lossy},
		Only: []string{"latency"}, Match: lossy.Name, Progress: func(line string) { t.Log(line) },
	})
	if !errors.Is(err, measure.ErrUnproved) || !strings.Contains(err.Error(), "lost 1") {
		t.Errorf("%v", err)
	}
	for _, c := range report.Results[0].Cases {
		if strings.HasPrefix(c.Name, lossy.Name) && len(c.Samples) > 0 {
			t.Errorf("there is a figure for %s", c.Name)
		}
	}
}
