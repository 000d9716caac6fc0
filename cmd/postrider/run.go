package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"go.uber.org/fx"
	"golang.org/x/term"
)

type runCmd struct {
	databaseFlags
	natsFlags
	workerFlags
	createFlags
	httpFlags
	Partitions int           `help:"Number of partitions that the database must have; 0: whatever it has." default:"0"`
	NoLeasing  bool          `help:"Deliver all partitions alone, without coordination; refused beside other workers."`
	Once       bool          `help:"Deliver what can be delivered now, and end."`
	Shadow     bool          `help:"Claim, read and shape as a worker of these settings would, beside the cluster; count, and publish and mark nothing."`
	JSON       bool          `help:"Print one JSON object a second to standard output." name:"json"`
	Silent     bool          `help:"Print nothing but errors."`
	Window     time.Duration `help:"Time over which the shown rates are taken." default:"5s"`
}

// Help shows examples below the flags.
func (c *runCmd) Help() string {
	return `Examples:
  postrider run --database-url postgres://relay@db/app --nats-url nats://n1,nats://n2 --create-stream
  postrider run --http-addr off --json        one line a second for a log
  postrider run --no-leasing --once           deliver the backlog from a cron job
  postrider run --shadow --json --batch-size 2000 --ordering stream     rehearse settings beside the cluster`
}

func (c *runCmd) validate() error {
	for _, err := range []error{
		c.databaseFlags.validate(), c.workerFlags.validate(), c.createFlags.validate(), c.httpFlags.validate(),
		validateTraces(os.Getenv), c.validateShadow(),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case c.Partitions < 0 || c.Partitions > 32767:
		return fmt.Errorf("%w: --partitions must lie between 1 and 32767, or be 0, got %d", errRefused, c.Partitions)
	case c.Window < time.Second:
		return fmt.Errorf("%w: --window must be at least 1s, got %s", errRefused, c.Window)
	case c.JSON && c.Silent:
		return fmt.Errorf("%w: --json and --silent exclude each other", errRefused)
	}
	return nil
}

// gcPercent has the collector run a third as often as by default. What a worker holds is bounded by its window and small,
// and a fifth of its processor time went into collecting (ADR 21). The variable GOGC takes precedence.
const gcPercent = 300

// Run works until the context ends, or once.
func (c *runCmd) Run(s *session) error {
	if err := c.validate(); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log := s.logger()
	screen := c.view(s)
	if screen == viewTerminal || c.Silent {
		// The screen shows the last errors itself; warnings would tear it.
		log = newLogger(s.stderr, levelErrorsOnly, s.cli.LogFormat)
	}
	if c.Shadow {
		return c.runShadow(s, log)
	}
	cfg := workerConfig{
		database: c.databaseFlags, nats: c.natsFlags, worker: c.workerFlags, create: c.createFlags,
		http: c.httpFlags, partitions: c.Partitions, noLeasing: c.NoLeasing, once: c.Once, log: log,
	}
	return runWorker(s.ctx, cfg, func(ctx context.Context, w *worker) {
		watch(ctx, w, screen, c.Window, s.stdout)
		if c.Once && !c.JSON && !c.Silent {
			done := w.Relay.Stats()
			fmt.Fprintf(s.stdout, "published %d, skipped %d, failed %d\n", done.Published, done.Skipped, done.Failed)
		}
	})
}

// startWorker wires a worker and joins the cluster.
func startWorker(ctx context.Context, cfg workerConfig) (*fx.App, *worker, error) {
	var w worker
	app := newWorker(ctx, cfg, &w)
	if err := app.Err(); err != nil {
		return nil, nil, rootCause(err)
	}
	start, cancel := context.WithTimeout(ctx, app.StartTimeout())
	defer cancel()
	if err := app.Start(start); err != nil {
		return nil, nil, rootCause(err)
	}
	return app, &w, nil
}

// runWorker starts a worker, watches it, and stops it in good order.
func runWorker(ctx context.Context, cfg workerConfig, watch func(context.Context, *worker)) error {
	app, w, err := startWorker(ctx, cfg)
	if err != nil {
		return err
	}
	if w.Monitor != nil {
		cfg.log.Info("monitor", "url", w.Monitor.URL())
	}
	watching, stopWatching := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watch(watching, w)
	}()
	select {
	case <-ctx.Done():
	case <-app.Wait():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), app.StopTimeout())
	defer cancel()
	err = app.Stop(stop)
	stopWatching()
	<-watched
	return errors.Join(w.Failure.get(), err)
}

// view is how `run` shows what it does.
type view int

const (
	viewNone view = iota
	viewJSON
	viewTerminal
)

func (c *runCmd) view(s *session) view {
	switch {
	case c.JSON:
		return viewJSON
	case c.Silent, c.Once:
		return viewNone
	case isTerminal(s.stdout):
		return viewTerminal
	default:
		return viewNone
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
