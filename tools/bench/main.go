package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider/tools/bench/measure"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailed  = 1
	exitRefused = 2
)

// errRefused marks an error of the settings, not of the work.
var errRefused = errors.New("refused")

// cli is the command line.
type cli struct {
	Program    string        `help:"The postrider program to measure, such as bin/postrider." placeholder:"PROGRAM" xor:"from"`
	Data       string        `help:"File of JSON lines that the events are made of, plain or gzip." placeholder:"FILE"`
	List       bool          `help:"List the scenarios, and measure nothing."`
	From       string        `help:"Show and draw the report that --json wrote here, or the scenarios --only of it, and measure nothing." placeholder:"FILE" xor:"from"`
	Only       []string      `help:"Scenarios to run, separated by commas. Default: all." placeholder:"NAME,…"`
	Match      string        `help:"Only cases with names that this regular expression matches, and what they are compared with." placeholder:"PATTERN"`
	Rounds     int           `help:"Rounds, each of which runs every case once: 1 to 100. Default 5." default:"0"`
	Events     int           `help:"Events of a drain: 64 to 20000000. Default 200000." default:"0"`
	Payload    int           `help:"Bytes of a payload, which is filled up or cut: 64 to 524288. Default 500." default:"0"`
	Partitions int           `help:"Partitions where a scenario does not vary them. Default 64." default:"0"`
	Duration   time.Duration `help:"How long a steady or idle case is measured. Default 15s." default:"0s"`
	Foreign    float64       `help:"Share of all processors that others may use in a round; above it the round is measured again." default:"0.05"`
	Repeats    int           `help:"How often a disturbed round is measured again: 0 to 10. Default 2." default:"-1"`
	Against    string        `help:"Another build of the program, which is measured and compared, too." placeholder:"PROGRAM" type:"existingfile"`
	Relay      []string      `help:"A flag of 'run' for the relay under test, such as --relay=--batch-size=900; repeatable." placeholder:"FLAG" sep:"none"`
	Quick      bool          `help:"One round of few events: shows that everything works, measures nothing."`
	JSON       string        `help:"Write the report as JSON to this file; '-' for standard output, without the table." name:"json" placeholder:"FILE"`
	SVG        string        `help:"Draw a chart into this file." name:"svg" placeholder:"FILE"`

	LogLevel  string `help:"Least level that is logged: ${enum}." enum:"debug,info,warn,error" default:"warn"`
	LogFormat string `help:"Format of the log: ${enum}." enum:"text,json" default:"text"`
}

// Help shows examples below the flags.
func (c *cli) Help() string {
	return `Starts PostgreSQL and NATS of its own, fills an outbox with the events, and measures the relay beside a null relay
that reads, publishes and waits, and keeps no state. Cases are measured in turns, and compared within a round. Every round is checked: lost,
repeated or reordered events end the command. Needs Linux, PostgreSQL's server binaries, and for "growth" about 25 GB below TMPDIR.

Examples; … stands for --program and --data, which make bench gives:
  bench --list
  bench … --only drain,steady --json report.json --svg report.svg
  bench … --only drain --match "postrider, by partition" --rounds 9 --events 1000000
  bench --from report.json --only drain --svg drain.svg
  bench … --only drain --match "postrider, by partition" --against ./postrider.before
  bench … --quick`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var code int
	if args := os.Args[1:]; len(args) == 2 && args[0] == measure.PartCommand {
		code = runPart(ctx, args[1], os.Stdin, os.Stdout, os.Stderr)
	} else {
		code = run(ctx, args, os.Stdout, os.Stderr)
	}
	stop()
	os.Exit(code)
}

// runPart runs a child of the benchmark, which talks with its parent.
func runPart(ctx context.Context, name string, input io.Reader, stdout, stderr io.Writer) int {
	if err := measure.RunPart(ctx, name, input, stdout, slog.New(slog.NewTextHandler(stderr, nil))); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return exitFailed
	}
	return exitOK
}

// exit carries an exit status out of the parser.
type exit int

// run is main without the process, for tests.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("bench"),
		kong.Description("Measures what this machine can do, beside a relay that keeps no state."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
	)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return exitFailed
	}
	defer func() { // --help ends the parser by a panic
		if e, ok := recover().(exit); ok {
			code = int(e)
		}
	}()
	if _, err := parser.Parse(args); err != nil {
		fmt.Fprintf(stderr, "bench: %s\nRun `bench --help` for the flags.\n", err)
		return exitRefused
	}
	err = c.measure(ctx, stdout, stderr)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errRefused), errors.Is(err, measure.ErrConfig):
		code = exitRefused
	default:
		code = exitFailed
	}
	fmt.Fprintln(stderr, "bench:", err)
	return code
}

// measure shows its results even after an interruption.
func (c *cli) measure(ctx context.Context, stdout, stderr io.Writer) error {
	if c.List {
		listScenarios(stdout)
		return nil
	}
	switch {
	case c.From != "":
		report, err := readReport(c.From, c.Only)
		if err != nil {
			return err
		}
		return c.write(stdout, report)
	case c.Program == "":
		return fmt.Errorf("%w: --program is missing: the program to measure, such as bin/postrider, which make build makes", errRefused)
	case c.Data == "":
		return fmt.Errorf("%w: --data is missing: a file of JSON lines, such as testdata/repo-history-12k.jsonl.gz of the sources", errRefused)
	}
	report, err := measure.Run(ctx, c.config(stderr))
	if report == nil {
		return err
	}
	return errors.Join(err, c.write(stdout, report))
}

func (c *cli) config(stderr io.Writer) measure.Config {
	repeats := c.Repeats
	switch repeats { // the configuration's zero means its default
	case -1:
		repeats = 0
	case 0:
		repeats = -1
	}
	return measure.Config{
		Program: c.Program, Data: c.Data, Events: c.Events, Payload: c.Payload, Partitions: c.Partitions, Rounds: c.Rounds, Duration: c.Duration,
		Against: c.Against, Relay: c.Relay, Only: c.Only, Match: c.Match, Quick: c.Quick, Foreign: c.Foreign, Repeats: repeats, Logger: c.logger(stderr),
		Progress: func(line string) { fmt.Fprintln(stderr, time.Now().Format("15:04:05 ")+line) },
	}
}

// logger is quiet by default: the progress reports.
func (c *cli) logger(stderr io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // the parser allows only known levels
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(stderr, options))
	}
	return slog.New(slog.NewTextHandler(stderr, options))
}
