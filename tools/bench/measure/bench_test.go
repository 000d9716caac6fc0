package measure

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

const testData = "../../../testdata/repo-history-12k.jsonl.gz"

func tiny(t *testing.T, only ...string) Config {
	t.Helper()
	return Config{
		Program: clustertest.Binary(t), Data: testData, Quick: true, Events: 700, Duration: leastSteady, Only: only, Foreign: 1,
		Progress: func(line string) { t.Log(line) },
	}
}

// Every scenario runs, with few events, and gives every case a value that is above zero.
func TestEveryScenarioRuns(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	var only []string
	for _, s := range Scenarios() {
		switch s.Name {
		case "drain", "steady":
			only = append(only, s.Name)
		}
	}
	measureAll(t, tiny(t, only...))
}

func TestEveryScenarioRunsSlowly(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	slow.Test(t)
	cfg := tiny(t)
	cfg.Events = 5000 // fewer may take no tick of the processors' clock, 10 ms
	measureAll(t, cfg)
}

func measureAll(t *testing.T, cfg Config) {
	t.Helper()
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		for _, c := range r.Cases {
			if len(c.Samples) != 1 {
				t.Errorf("%s, %s: %d rounds", r.Scenario, c.Name, len(c.Samples))
				continue
			}
			if s := c.Samples[0]; r.Scenario == "drain" && s.Events != cfg.Events {
				t.Errorf("%s, %s: %d events were read back", r.Scenario, c.Name, s.Events)
			}
			if v := c.Values[r.Main]; v.Median <= 0 && r.Scenario != "idle" {
				t.Errorf("%s, %s: %v", r.Scenario, c.Name, c.Values)
			}
			if c.Base != "" && c.Ratios[r.Main].Median <= 0 {
				t.Errorf("%s, %s has no ratio to %s", r.Scenario, c.Name, c.Base)
			}
		}
	}
	checkChart(t, report)
}

func checkChart(t *testing.T, report *Report) {
	t.Helper()
	var chart bytes.Buffer
	if err := report.WriteSVG(&chart); err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		for _, c := range r.Cases {
			if !strings.Contains(chart.String(), c.Name) {
				t.Errorf("the chart does not show %s", c.Name)
			}
		}
	}
	for decoder := xml.NewDecoder(&chart); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the chart is no XML: %v", err)
		}
	}
}

// With another build each case of the relay has a twin, which is compared with it.
func TestAgainstAnotherBuild(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	cfg := tiny(t, "drain")
	cfg.Against, cfg.Match, cfg.Relay = cfg.Program, "postrider, by partition", []string{"--batch-size=100", "--in-flight=200"}
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range report.Results[0].Cases {
		names = append(names, c.Name+"/"+c.Base)
	}
	want := []string{nullAtomic + "/", "postrider, by partition/" + nullAtomic, "postrider, by partition, other build/postrider, by partition"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// An event that the stream lost ends the benchmark, in the null relay's round as in the relay's.
func TestLossEndsTheBenchmark(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	for _, match := range []string{"postrider, by partition", nullPipelined} {
		b, err := start(t.Context(), tiny(t, "drain"))
		if err != nil {
			t.Fatal(err)
		}
		b.cfg.Match = match
		b.tamper = func(ctx context.Context, stream jetstream.Stream) error { return stream.DeleteMsg(ctx, 17) }
		report, err := b.run(t.Context())
		if err := b.stop(t.Context()); err != nil {
			t.Error(err)
		}
		if !errors.Is(err, ErrUnproved) || !strings.Contains(err.Error(), "lost 1") {
			t.Errorf("%s: %v", match, err)
		}
		for _, c := range report.Results[0].Cases {
			if len(c.Samples) > 0 {
				t.Errorf("%s: there is a figure for %s: %v", match, c.Name, c.Values)
			}
		}
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"events": func(c *Config) { c.Events = 3 }, "payload": func(c *Config) { c.Payload = 5 }, "partitions": func(c *Config) { c.Partitions = 40_000 },
		"rounds": func(c *Config) { c.Rounds = 101 }, "repeats": func(c *Config) { c.Repeats = 11 }, "only": func(c *Config) { c.Only = []string{"drian"} },
		"duration": func(c *Config) { c.Duration = time.Millisecond }, "foreign": func(c *Config) { c.Foreign = 2 }, "data": func(c *Config) { c.Data = "nothing" },
		"against": func(c *Config) { c.Against = "nothing" }, "program": func(c *Config) { c.Program = "" }, "match": func(c *Config) { c.Match = "(" },
	} {
		cfg := Config{Program: "/bin/true", Data: testData}
		change(&cfg)
		if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
