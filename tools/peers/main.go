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

// peers returns all measured peers.
func peers() []measure.Peer {
	return []measure.Peer{
		{Name: "River, 2,000 workers, unordered", Part: partRiver, Unordered: true, Fill: fillRiver},
		{Name: "Watermill SQL forwarder, 1 topic", Part: partWatermill, Fill: fillWatermill(1)},
		{Name: "Watermill SQL forwarder, 8 topics", Part: partWatermill8, Fill: fillWatermill(8)},
	}
}

// The parts that this program runs, besides handlers; package measure has the others.
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
		return measure.ServePeer(ctx, input, output, func(ctx context.Context, s measure.PeerSettings, begin func() error) error {
			return runRiver(ctx, s, drainingRiver(), begin)
		})
	case partWatermill:
		return measure.ServePeer(ctx, input, output, runWatermill(1, drainingWatermill()))
	case partWatermill8:
		return measure.ServePeer(ctx, input, output, runWatermill(8, drainingWatermill()))
	}
	if handler := handlers()[name]; handler != nil {
		return measure.ServeHandler(ctx, input, output, handler)
	}
	return measure.RunPart(ctx, name, input, output, slog.New(slog.DiscardHandler))
}

func compare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg := measure.Config{Progress: func(line string) {
		fmt.Fprintln(stderr, time.Now().Format("15:04:05 ")+line)
	}}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.Program, "program", "", "the postrider program; required")
	flags.StringVar(&cfg.Data, "data", "", "file of JSON lines that the events are made of; required")
	flags.IntVar(&cfg.Rounds, "rounds", 0, "rounds; default 5")
	flags.IntVar(&cfg.Events, "events", 0, "events of a drain; default 200000")
	flags.IntVar(&cfg.Payload, "payload", 0, "bytes of a payload; default 500")
	flags.DurationVar(&cfg.Duration, "duration", 0, "how long a round of -latency is measured; default 15s")
	flags.StringVar(&cfg.Match, "match", "", "only cases with names that this regular expression matches, and what they are compared with")
	flags.Float64Var(&cfg.Foreign, "foreign", 0, "share of the processors that others may use in a round; above it the round is measured again; default 0.05")
	flags.IntVar(&cfg.Repeats, "repeats", 0, "how often at most; -1 for never; default 2")
	flags.BoolVar(&cfg.Quick, "quick", false, "one round of few events: measures nothing")
	rate := flags.Int("rate", 0, "transactions a second of -latency; default: 100, and then 1000")
	latency := flags.Bool("latency", false, "measure commit to receipt at a steady rate instead of a drain")
	graphile := flags.String("graphile", "", "directory that graphile-worker is installed into, for -latency; default: it is left out")
	report, chart := flags.String("json", "", "write the report to this file"), flags.String("svg", "", "draw a chart into this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if cfg.Program == "" {
		return errors.New("-program is missing: a build of postrider")
	}
	if *rate > 0 {
		cfg.Rates = []int{*rate}
	}
	if *latency {
		cfg.Systems, cfg.Only = allSystems(ctx, *graphile, cfg.Progress), []string{"latency"}
	} else {
		cfg.Peers, cfg.Only = peers(), []string{"peers"}
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

// allSystems reports why graphile-worker is left out, where it is.
func allSystems(ctx context.Context, dir string, say func(string)) []measure.System {
	all := systems()
	if dir == "" {
		say("graphile-worker is left out: -graphile names no directory")
		return all
	}
	more, err := graphiles(ctx, dir)
	if err != nil {
		say("graphile-worker is left out: " + err.Error())
	}
	return append(all, more...)
}

func toFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
