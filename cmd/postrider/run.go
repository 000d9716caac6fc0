package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/dig"
	"go.uber.org/fx"

	"github.com/postrider/postrider/internal/chaos"
	"github.com/postrider/postrider/worker"
)

type runCmd struct {
	databaseFlags `group:"database"`
	natsFlags     `group:"nats"`
	workerFlags   `group:"delivery"`
	createFlags   `group:"stream"`
	httpFlags     `group:"monitor"`

	Partitions int           `help:"Number of partitions that the database must have; 0: whatever it has." default:"0"`
	NoLeasing  bool          `help:"Deliver all partitions alone, without coordination; refused beside other workers."`
	Once       bool          `help:"Deliver what can be delivered now, and end."`
	Canary     time.Duration `help:"Every so often one worker of the cluster appends an event and waits until it can be read from the stream; 0: never." default:"0s"`
	Audit      time.Duration `help:"Within that time one worker of the cluster finds what the stream has lost in its middle (see --lost-messages); 0: nobody looks." default:"0s"`
	Shadow     bool          `help:"Claim, read and shape as a worker of these settings would, beside the cluster; count, and publish and mark nothing."`
	JSON       bool          `help:"Print one JSON object a second to standard output." name:"json"`
	Silent     bool          `help:"Print nothing but errors."`
	Window     time.Duration `help:"Time over which the shown rates are taken." default:"5s"`
}

func (c *runCmd) Help() string {
	return `Examples:
  postrider run --database-url postgres://relay@db/app --nats-url nats://n1,nats://n2 --create-stream
  postrider run --http-addr off --json        one line a second for a log
  postrider run --no-leasing --once           deliver the backlog from a cron job
  postrider run --shadow --json --batch-size 2000 --ordering stream     rehearse settings beside the cluster

Events that a Go producer appends ring a bell over NATS. Those of plain SQL wait for the next poll, some milliseconds under load and up to
--interval at rest, unless PostgreSQL's log rings: with wal_level logical,
  CREATE PUBLICATION postrider_public FOR TABLE outbox_ready WITH (publish = 'insert')`
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

// gcPercent makes the collector run a third as often as by default. A worker's window keeps its heap small, and collecting took a fifth of
// its processor time (ADR 21). The variable GOGC takes precedence.
const gcPercent = 300

func (c *runCmd) Run(s *session) error {
	outlivePipe()
	if err := c.validate(); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log := s.logger()
	screen := c.view(s)
	if screen == viewTerminal || c.Silent {
		// The screen shows the last errors; warnings would tear it.
		log = newLogger(s.stderr, levelErrorsOnly, s.cli.LogFormat)
	}
	if c.Shadow {
		return c.runShadow(s, log)
	}
	cfg, err := c.settings()
	if err != nil {
		return err
	}
	cfg.Logger = log
	return runWorker(s.ctx, cfg, func(ctx context.Context, w *running) {
		watch(ctx, w, screen, c.Window, s.stdout)
		if c.Once && !c.JSON && !c.Silent {
			done := w.Stats()
			fmt.Fprintf(s.stdout, "published %d, skipped %d, failed %d\n", done.Published, done.Skipped, done.Failed)
		}
	})
}

// settings converts the flags to the worker's configuration.
func (c *runCmd) settings() (worker.Config, error) {
	w, err := c.workerFlags.settings()
	if err != nil {
		return w, err
	}
	b, err := c.broker()
	if err != nil {
		return w, err
	}
	w.Stream.Create, w.Stream.Replicas, w.Stream.Memory = c.CreateStream, c.StreamReplicas, c.StreamStorage == "memory"
	w.DatabaseURL, w.Schema, w.Partitions = c.DatabaseURL, c.Schema, c.Partitions
	w.NATSURL, w.NATSOptions, w.Stream.APIPrefix = b.url, b.options, b.apiPrefix
	w.Alone, w.Once, w.Canary, w.Audit = c.NoLeasing, c.Once, c.Canary, c.Audit
	if proxy := os.Getenv(throughVariable); proxy != "" {
		if w.Database, err = c.config(); err != nil {
			return w, err
		}
		w.Database.ConnConfig.DialFunc = chaos.Dialer{Proxy: proxy, Server: postgresServer}.DialContext
		w.NATSOptions = append(w.NATSOptions, nats.SetCustomDialer(chaos.Dialer{Proxy: proxy, Server: natsServer}))
	}
	w.Monitor, err = c.httpFlags.server()
	return w, err
}

func startWorker(ctx context.Context, cfg worker.Config) (*fx.App, *running, error) {
	var w *running
	app := newWorker(ctx, cfg, &w)
	if err := app.Err(); err != nil {
		return nil, nil, dig.RootCause(err) // the wiring's frames mean nothing to users
	}
	// From here on the end of ctx stops the worker in order.
	start, cancel := context.WithTimeout(context.WithoutCancel(ctx), app.StartTimeout())
	defer cancel()
	if err := app.Start(start); err != nil {
		return nil, nil, err
	}
	return app, w, nil
}

// runWorker runs a worker, and another one in its place when its NATS client gives the connection up.
func runWorker(ctx context.Context, cfg worker.Config, watch func(context.Context, *running)) error {
	for {
		err := runOne(ctx, cfg, watch)
		if !errors.Is(err, worker.ErrClosed) || ctx.Err() != nil {
			return err
		}
		cfg.Logger.Error("another worker takes the place of one that cannot go on", "error", err)
	}
}

// runOne starts a worker, watches it, and stops it in order.
func runOne(ctx context.Context, cfg worker.Config, watch func(context.Context, *running)) error {
	app, w, err := startWorker(ctx, cfg)
	if err != nil {
		return err
	}
	if w.Monitor() != nil {
		cfg.Logger.Info("monitor", "url", w.Monitor().URL())
	}
	watching, stopWatching := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watch(watching, w)
	}()
	select {
	case <-ctx.Done():
	case <-w.ended:
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), app.StopTimeout())
	defer cancel()
	err = app.Stop(stop)
	stopWatching()
	<-watched
	if err != nil {
		return err
	}
	return w.err
}

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
