package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/postrider/postrider/tools/bench/measure"
)

// peers are all that are measured.
func peers() []measure.Peer {
	return []measure.Peer{
		{Name: "River, 2,000 workers, unordered", Part: partRiver, Unordered: true, Fill: fillRiver},
		{Name: "Watermill SQL forwarder, 1 topic", Part: partWatermill, Fill: fillWatermill(1)},
		{Name: "Watermill SQL forwarder, 8 topics", Part: partWatermill8, Fill: fillWatermill(8)},
	}
}

// The parts that this program runs; others are those of package measure.
const (
	partRiver      = "river"
	partWatermill  = "watermill"
	partWatermill8 = "watermill8"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) == 3 && os.Args[1] == measure.PartCommand {
		err = runPart(ctx, os.Args[2], os.Stdin, os.Stdout)
	} else {
		err = compare(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1) // nothing is left to be stopped
	}
}

func runPart(ctx context.Context, name string, input io.Reader, output io.Writer) error {
	switch name {
	case partRiver:
		return measure.ServePeer(ctx, input, output, runRiver)
	case partWatermill:
		return measure.ServePeer(ctx, input, output, runWatermill(1))
	case partWatermill8:
		return measure.ServePeer(ctx, input, output, runWatermill(8))
	default:
		return measure.RunPart(ctx, name, input, output, slog.New(slog.DiscardHandler))
	}
}

func compare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg := measure.Config{Peers: peers(), Only: []string{"peers"}, Progress: func(line string) {
		fmt.Fprintln(stderr, time.Now().Format("15:04:05 ")+line)
	}}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.Program, "program", "", "the postrider program; required")
	flags.StringVar(&cfg.Data, "data", "", "file of JSON lines that the events are made of; required")
	flags.IntVar(&cfg.Rounds, "rounds", 0, "rounds; default 5")
	flags.IntVar(&cfg.Events, "events", 0, "events of a drain; default 200000")
	flags.IntVar(&cfg.Payload, "payload", 0, "bytes of a payload; default 500")
	flags.StringVar(&cfg.Match, "match", "", "only cases with this in their names, and what they are compared with")
	flags.BoolVar(&cfg.Quick, "quick", false, "one round of few events: measures nothing")
	report, chart := flags.String("json", "", "write the report to this file"), flags.String("svg", "", "draw a chart into this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if cfg.Program == "" {
		return errors.New("-program is missing: a build of postrider")
	}
	result, err := measure.Run(ctx, cfg)
	if result == nil {
		return err
	}
	show(stdout, result)
	if *report != "" {
		err = errors.Join(err, toFile(*report, func(w io.Writer) error { return json.NewEncoder(w).Encode(result) }))
	}
	if *chart != "" {
		err = errors.Join(err, toFile(*chart, result.WriteSVG))
	}
	return err
}

func toFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// show prints a line for each case.
func show(out io.Writer, report *measure.Report) {
	fmt.Fprintln(out, report.Title())
	for _, r := range report.Results {
		fmt.Fprintf(out, "\n%-38s %28s %8s %8s %9s %8s %8s\n", r.Scenario, "events/s", "× null", "relay µs", "postgres", "nats", "MiB")
		for _, c := range r.Cases {
			rate := c.Values[measure.ValueRate]
			mark := ""
			if c.Disturbed > 0 {
				mark = fmt.Sprintf("  %d of %d rounds disturbed", c.Disturbed, len(c.Samples))
			}
			fmt.Fprintf(out, "%-38s %28s %8.2f %8.1f %9.1f %8.1f %8.0f%s\n", c.Name,
				fmt.Sprintf("%s [%s–%s]", measure.Figure(rate.Median), measure.Figure(rate.Least), measure.Figure(rate.Most)),
				c.Ratios[measure.ValueRate].Median, c.Values[measure.ValueRelay].Median, c.Values[measure.ValuePostgres].Median,
				c.Values[measure.ValueNATS].Median, c.Values[measure.ValueMemory].Median, mark)
		}
	}
}
