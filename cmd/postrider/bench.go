package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/internal/bench"
)

type benchCmd struct {
	Data       string        `help:"File of JSON lines that the events are made of, plain or gzip." placeholder:"FILE"`
	List       bool          `help:"List the scenarios, and measure nothing."`
	Only       []string      `help:"Scenarios to run, separated by commas. Default: all." placeholder:"NAME,…"`
	Match      string        `help:"Only cases with this in their names, and what they are compared with." placeholder:"TEXT"`
	Rounds     int           `help:"Rounds, each of which runs every case once: 1 to 100. Default 5." default:"0"`
	Events     int           `help:"Events of a drain: 64 to 20000000. Default 200000." default:"0"`
	Payload    int           `help:"Bytes of a payload, which is filled up or cut: 64 to 524288. Default 500." default:"0"`
	Partitions int           `help:"Partitions where a scenario does not vary them. Default 64." default:"0"`
	Duration   time.Duration `help:"How long a steady or idle case is measured. Default 15s." default:"0s"`
	Foreign    float64       `help:"Share of all processors that others may use in a round; above it the round is measured again." default:"0.05"`
	Repeats    int           `help:"How often a disturbed round is measured again: 0 to 10. Default 2." default:"-1"`
	Against    string        `help:"Another build of this program, which is measured and compared, too." placeholder:"PROGRAM" type:"existingfile"`
	Relay      []string      `help:"A flag of 'run' for the relay under test, such as --relay=--batch-size=900; repeatable." placeholder:"FLAG" sep:"none"`
	Quick      bool          `help:"One round of few events: shows that everything works, measures nothing."`
	JSON       string        `help:"Write the report as JSON to this file; '-' for standard output, without the table." name:"json" placeholder:"FILE"`
	SVG        string        `help:"Draw a chart into this file." name:"svg" placeholder:"FILE"`
}

// Help shows examples below the flags.
func (c *benchCmd) Help() string {
	return `Starts PostgreSQL and NATS of its own, fills an outbox with the events, and measures the relay beside a null relay
that reads, publishes and waits, and keeps no state. Cases are measured in turns, and compared within a round. Every round is checked: lost,
repeated or reordered events end the command. Needs Linux, PostgreSQL's server binaries, and for "growth" about 25 GB below TMPDIR.

Examples:
  postrider bench --list
  postrider bench --data events.jsonl.gz --only drain,steady --json report.json --svg report.svg
  postrider bench --data events.jsonl.gz --only drain --match fenced --rounds 9 --events 1000000 --payload 2000
  postrider bench --data events.jsonl.gz --only drain --match fenced --against ./postrider.before
  postrider bench --data events.jsonl.gz --quick`
}

func (c *benchCmd) config(s *session) bench.Config {
	repeats, log := c.Repeats, s.logger()
	switch repeats { // the zero of the configuration is its default
	case -1:
		repeats = 0
	case 0:
		repeats = -1
	}
	if s.cli.LogLevel == "info" { // the progress says what happens
		log = newLogger(s.stderr, slog.LevelWarn, s.cli.LogFormat)
	}
	return bench.Config{
		Data: c.Data, Events: c.Events, Payload: c.Payload, Partitions: c.Partitions, Rounds: c.Rounds, Duration: c.Duration,
		Against: c.Against, Relay: c.Relay, Only: c.Only, Match: c.Match, Quick: c.Quick, Foreign: c.Foreign, Repeats: repeats, Logger: log,
		Progress: func(line string) { fmt.Fprintln(s.stderr, time.Now().Format("15:04:05 ")+line) },
	}
}

// Run measures, and shows what it has also when it is interrupted.
func (c *benchCmd) Run(s *session) error {
	if c.List {
		rows := []table.Row{}
		for _, scenario := range bench.Scenarios() {
			rows = append(rows, table.Row{scenario.Name, scenario.About})
		}
		writeTable(s.stdout, table.Row{"scenario", "what it measures"}, rows)
		return nil
	}
	if c.Data == "" {
		return fmt.Errorf("%w: --data is missing: a file of JSON lines, such as testdata/repo-history-12k.jsonl.gz of the sources", errRefused)
	}
	report, err := bench.Run(s.ctx, c.config(s))
	if errors.Is(err, bench.ErrConfig) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if report == nil {
		return err
	}
	return errors.Join(err, c.write(s, report))
}

func (c *benchCmd) write(s *session, report *bench.Report) error {
	if c.JSON != "-" {
		showBench(s.stdout, report)
	} else if err := writeJSON(s.stdout, report); err != nil {
		return err
	}
	if c.JSON != "" && c.JSON != "-" {
		if err := toFile(c.JSON, func(w io.Writer) error { return writeJSON(w, report) }); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	if c.SVG != "" {
		if err := toFile(c.SVG, report.WriteSVG); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	return nil
}

func toFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// showBench prints a table for each scenario.
func showBench(out io.Writer, report *bench.Report) {
	fmt.Fprintln(out, report.Title())
	for _, result := range report.Results {
		columns := result.Columns()
		header := table.Row{result.Scenario}
		for _, name := range columns {
			header = append(header, strings.ReplaceAll(name, "_", " "))
		}
		var rows []table.Row
		for _, one := range result.Cases {
			if len(one.Samples) == 0 {
				continue
			}
			row := table.Row{one.Name}
			for i, name := range columns {
				row = append(row, benchCell(one, name, i == 0))
			}
			rows = append(rows, append(row, benchRatio(one, result.Main), benchMark(one)))
		}
		fmt.Fprintln(out)
		writeTable(out, append(header, "× its base", ""), rows)
	}
}

// benchCell is a median, with its spread in the main column.
func benchCell(c *bench.CaseResult, name string, spread bool) string {
	v, found := c.Values[name]
	switch {
	case !found:
		return ""
	case spread && len(c.Samples) > 1:
		return fmt.Sprintf("%s [%s–%s]", bench.Figure(v.Median), bench.Figure(v.Least), bench.Figure(v.Most))
	default:
		return bench.Figure(v.Median)
	}
}

func benchRatio(c *bench.CaseResult, name string) string {
	ratio, found := c.Ratios[name]
	if !found {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio.Median)
}

func benchMark(c *bench.CaseResult) string {
	if c.Disturbed == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d rounds disturbed", c.Disturbed, len(c.Samples))
}

// benchPartCmd is what bench starts; it is no command for people.
type benchPartCmd struct {
	Part string `arg:"" help:"Which part."`
}

// Run talks with the process that started it.
func (c *benchPartCmd) Run(s *session) error {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	return bench.RunPart(ctx, c.Part, os.Stdin, s.stdout, s.logger())
}
