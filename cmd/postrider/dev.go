package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/localnats"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/outbox/schema"
)

type devCmd struct {
	DatabaseURL string `help:"PostgreSQL to use instead of a private one." placeholder:"URL" env:"-"`
	NatsURL     string `help:"NATS to use instead of an in-process one." placeholder:"URL" env:"-"`
	Schema      string `help:"Schema of the outbox's tables." default:"public"`
	workerFlags `group:"delivery"`
	httpFlags   `group:"monitor"`

	Workers    int      `help:"Number of workers in this process: 1 to 64; 0: generate and check alone, workers elsewhere deliver." default:"3"`
	Partitions int      `help:"Number of partitions: 1 to 32767." default:"64"`
	Import     []string `help:"File of JSON lines to import; repeatable." placeholder:"FILE"`
	Rate       *float64 `help:"Generate that many events a second; 0: none. Without files the default is 100, with --chaos 300." placeholder:"N"`
	Quiet      bool     `help:"Generate nothing, and print to standard output nothing but lines that export DATABASE_URL and NATS_URL, when all is up." env:"-"`
	Port       int      `help:"First port, PostgreSQL's; the monitor's and those of NATS follow; 0: free ones, at each start the same with --data-dir." default:"0" env:"-"`
	DataDir    string   `help:"Directory that keeps database and stream; without it they are temporary." placeholder:"DIR"`
	NatsNodes  int      `help:"Nodes of the in-process NATS: 1 or 3." enum:"1,3" default:"1"`
	showFlags
	ExitWhenDrained bool `help:"End when every event was received, with status 0 only if nothing was lost, reordered or doubled."`
	JSON            bool `help:"Print one JSON object at the end, and nothing else to standard output." name:"json"`
}

func (c *devCmd) Help() string {
	return `Needs nothing but PostgreSQL's server binaries. As root it runs them as user postgres or nobody. It uses servers that flags
name, never those of DATABASE_URL, NATS_URL or PGHOST. Its PostgreSQL has wal_level logical.

Examples:
  postrider dev                                             generated events, monitor stays up
  postrider dev --import events.jsonl.gz                    real events
  postrider dev --import events.jsonl.gz --exit-when-drained --json
  postrider dev --chaos --import events.jsonl.gz            while workers and servers fail, to a verdict
  postrider dev --quiet --data-dir .dev --port 5500 > .env  an environment for a project: ` + "`. ./.env`" + ` in its shells
  postrider dev --workers 0 --database-url … --nats-url …   try a cluster that runs`
}

func (c *devCmd) validate() error {
	for _, err := range []error{c.workerFlags.validate(), c.httpFlags.validate(), validateTraces(os.Getenv)} {
		if err != nil {
			return err
		}
	}
	switch {
	case c.Workers < 0 || c.Workers > 64:
		return fmt.Errorf("%w: --workers must lie between 0 and 64, got %d", errRefused, c.Workers)
	case c.Workers == 0 && (c.DatabaseURL == "" || c.NatsURL == ""):
		return fmt.Errorf("%w: --workers=0 leaves delivery to workers elsewhere; give their --database-url and --nats-url", errRefused)
	case c.Workers == 0 && c.HTTPAddr != "" && c.HTTPAddr != "off":
		return fmt.Errorf("%w: --workers=0 serves no monitor; leave out --http-addr, and run `postrider monitor`", errRefused)
	case c.Partitions < 1 || c.Partitions > 32767:
		return fmt.Errorf("%w: --partitions must lie between 1 and 32767, got %d", errRefused, c.Partitions)
	case c.Rate != nil && !(*c.Rate >= 0): // NaN, too
		return fmt.Errorf("%w: --rate must not be negative, got %g", errRefused, *c.Rate)
	case c.Quiet && (c.Chaos || c.Rate != nil && *c.Rate > 0):
		return fmt.Errorf("%w: --quiet generates nothing; leave out --rate and --chaos", errRefused)
	case c.Workers == 0 && !c.feeds():
		return fmt.Errorf("%w: --workers=0 checks what it generates or imports; leave out --quiet and --rate=0", errRefused)
	case c.Port != 0 && (c.Port < lowestDevPort || c.Port > highestDevPort):
		return fmt.Errorf("%w: --port must lie between %d and %d, got %d", errRefused, lowestDevPort, highestDevPort, c.Port)
	case c.rate(0) > 0 && len(c.Import) > 0:
		return fmt.Errorf("%w: --rate generates events and --import reads them; give one of the two", errRefused)
	case c.ExitWhenDrained && len(c.Import) == 0:
		return fmt.Errorf("%w: --exit-when-drained needs --import: generated events do not end", errRefused)
	}
	if err := c.validateShow(); err != nil {
		return err
	}
	for _, name := range c.Import {
		if _, err := os.Stat(name); err != nil {
			return fmt.Errorf("%w: --import: %w", errRefused, err)
		}
	}
	return nil
}

// rate returns the events generated a second, by default otherwise.
func (c *devCmd) rate(otherwise float64) float64 {
	switch {
	case c.Rate != nil:
		return *c.Rate
	case c.Quiet:
		return 0
	}
	return otherwise
}

func (c *devCmd) feeds() bool { return len(c.Import) > 0 || c.rate(defaultRate) > 0 }

// devReport is the last object of --json.
type devReport struct {
	Committed       int     `json:"committed"`
	Received        int     `json:"received"`
	Lost            int     `json:"lost"`
	Held            int     `json:"held"` // dead, or behind a dead one
	Reordered       int     `json:"reordered"`
	Duplicates      int     `json:"duplicates"`
	EventsPerSecond float64 `json:"events_per_second"`
	LatencyP50      float64 `json:"latency_p50_ms"`
	LatencyP99      float64 `json:"latency_p99_ms"`
	Workers         int     `json:"workers"`
	Partitions      int     `json:"partitions"`
}

func (r devReport) ok() bool {
	return r.Received == r.Committed && r.Lost == 0 && r.Reordered == 0 && r.Duplicates == 0
}

type dev struct {
	cmd     *devCmd
	session *session
	log     *slog.Logger

	ports                devPorts
	elsewhere            bool // a flag set the monitor's address
	databaseURL, natsURL string
	postgres             *localpg.Server    // nil: somebody else's
	broker               *localnats.Cluster // nil: somebody else's
	stops                []func()           // in the order of starting
	pool                 *pgxpool.Pool
	nc                   *nats.Conn
	apiPrefix            string // of JetStream
	ledger               *ledger.Ledger
	checker              *ledger.Checker
	monitor              string
	partitions           int
	transforms           []shape.Transform // the workers' transforms
	held                 int               // events dead or blocked at the end
	broken               chan error        // a worker ended by itself
}

func (c *devCmd) Run(s *session) error {
	outlivePipe()
	if c.DatabaseURL == "" {
		if err := forgetShell(); err != nil {
			return err
		}
	}
	if err := c.validate(); err != nil {
		return err
	}
	if c.Chaos {
		return c.show(s)
	}
	d := &dev{cmd: c, session: s, log: s.loggerFrom(slog.LevelWarn), ledger: ledger.New(), broken: make(chan error, c.Workers)}
	defer d.stop()
	if err := d.start(s.ctx, d.startWorkers); err != nil {
		return err
	}
	if err := d.keepPorts(); err != nil {
		return err
	}
	d.tellAddresses()
	return d.work(s.ctx)
}

func (d *dev) say(format string, args ...any) {
	out := d.session.stdout
	if d.cmd.JSON || d.cmd.Quiet {
		out = d.session.stderr
	}
	fmt.Fprintf(out, format+"\n", args...)
}

// stop ends the parts in the reverse order of their start. A second stop is harmless.
func (d *dev) stop() {
	for _, stop := range slices.Backward(d.stops) {
		stop()
	}
	d.stops = nil
}

func (d *dev) start(ctx context.Context, startWorkers func(context.Context) error) (err error) {
	if d.ports, err = d.cmd.ports(); err != nil {
		return err
	}
	if d.elsewhere = d.cmd.HTTPAddr != ""; !d.elsewhere && d.ports.Monitor > 0 { // where it listened before
		d.cmd.HTTPAddr = fmt.Sprintf("127.0.0.1:%d", d.ports.Monitor)
	}
	for _, step := range []func(context.Context) error{d.startPostgres, d.startNATS, d.prepare, startWorkers} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// prepare migrates and connects.
func (d *dev) prepare(ctx context.Context) error {
	f := databaseFlags{DatabaseURL: d.databaseURL, Schema: d.cmd.Schema}
	config := schema.Config{Partitions: d.cmd.Partitions, OthersMayCreate: d.postgres != nil}
	if d.postgres != nil { // for commands that get its address alone
		config.Stream, config.Subject = d.cmd.Stream, d.cmd.Subject
	}
	m, err := migrator(f, d.log, config)
	if err != nil {
		return err
	}
	if err := m.Up(ctx); err != nil {
		return named(err)
	}
	if d.transforms, err = d.cmd.transforms(); err != nil {
		return err
	}
	if d.pool, err = f.pool(ctx, "postrider dev", 4); err != nil {
		return err
	}
	d.stops = append(d.stops, d.pool.Close)
	info, err := checkSchema(ctx, d.pool, schema.Config{Schema: d.cmd.Schema, Stream: d.cmd.Stream, Subject: d.cmd.Subject})
	if err != nil {
		return err
	}
	d.partitions = int(info.Partitions)
	d.cmd.complete(info)
	if d.nc, _, err = (natsFlags{NatsURL: d.natsURL}).connect("postrider dev", d.log); err != nil {
		return err
	}
	d.stops = append(d.stops, d.nc.Close)
	// Foreign events come from an earlier database or stream, or from people who try the addresses.
	foreign := d.cmd.DatabaseURL != "" || d.cmd.NatsURL != "" || d.cmd.DataDir != "" || !d.cmd.ExitWhenDrained
	d.checker, err = ledger.NewChecker(ledger.Config{
		Ledger: d.ledger, Ordering: ledger.Ordering(d.cmd.Ordering), AllowForeign: foreign, AllowMoved: true,
	})
	return err
}

// startWorkers starts the workers in turn; the first one makes the stream and serves the monitor.
func (d *dev) startWorkers(ctx context.Context) error {
	for i := range d.cmd.Workers {
		cfg, err := d.cmd.settings()
		if err != nil {
			return err
		}
		cfg.DatabaseURL, cfg.Schema, cfg.NATSURL, cfg.Logger = d.databaseURL, d.cmd.Schema, d.natsURL, d.log.With("n", i+1)
		cfg.Stream.Create, cfg.Stream.Replicas = true, d.cmd.NatsNodes
		if i == 0 {
			if cfg.Monitor, err = d.cmd.server(); err != nil {
				return err
			}
		}
		app, w, err := startWorker(ctx, cfg)
		if err != nil {
			if cfg.Monitor != nil && !d.elsewhere {
				return d.cureOf(err, d.ports.Monitor)
			}
			return err
		}
		d.later(ctx, "worker", app.StopTimeout(), app.Stop)
		if w.Monitor() != nil {
			d.monitor = w.Monitor().URL()
		}
		go func() {
			select {
			case <-w.ended:
				if w.err != nil {
					d.broken <- fmt.Errorf("a worker ended: %w", w.err)
				}
			case <-ctx.Done():
			}
		}()
	}
	where := "elsewhere"
	if d.cmd.Workers > 0 {
		where = fmt.Sprintf("%d in this process", d.cmd.Workers)
	}
	d.say("Workers      %s, %d partitions", where, d.partitions)
	if d.monitor != "" {
		d.say("Monitor      %s", d.monitor)
	}
	return nil
}

// work subscribes, produces and reports. An interruption ends producing; committed events are still received.
func (d *dev) work(interrupt context.Context) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(interrupt))
	defer cancel(nil)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	running.Go(func() {
		select {
		case err := <-d.broken:
			cancel(err)
		case <-ctx.Done():
		}
	})
	if !d.cmd.feeds() {
		select {
		case <-interrupt.Done():
			if !d.cmd.JSON { // no event was checked
				return nil
			}
			return d.report()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	producing, stopProducing := context.WithCancel(ctx)
	defer context.AfterFunc(interrupt, stopProducing)()
	defer stopProducing()
	ready := make(chan struct{})
	filter, err := eventsFilter(d.cmd.Subject)
	if err != nil {
		return err
	}
	running.Go(func() {
		sub := subscription{stream: d.cmd.Stream, filter: filter, from: jetstream.DeliverNewPolicy}
		if err := subscribe(ctx, d.nc, sub, func() { close(ready) }, d.receive); err != nil {
			cancel(err)
		}
	})
	select {
	case <-ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := d.produce(producing); err != nil {
		return cmp.Or(err, d.report())
	}
	d.ledger.Finish()
	err = d.drained(ctx, interrupt)
	if report := cmp.Or(err, d.report()); report != nil || d.cmd.ExitWhenDrained || interrupt.Err() != nil {
		return report
	}
	d.say("Everything was received. The monitor stays up; Ctrl-C ends.")
	select {
	case <-interrupt.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// receive skips messages that are no events: people who try the addresses may have published them.
func (d *dev) receive(msg jetstream.Msg) error {
	m, err := ledger.ReadMessage(msg)
	if err != nil {
		d.log.Warn("a message that is no event", "subject", msg.Subject(), "error", err)
		return nil
	}
	for _, fault := range d.checker.Receive(m) {
		d.log.Error("the checker found a fault", "fault", fault.String())
	}
	return nil
}

// report prints the checker's findings; its error is silent, as the report has said it.
func (d *dev) report() error {
	r := d.checker.Report()
	body := devReport{
		Committed: r.Committed, Received: r.Received, Lost: max(r.Lost-d.held, 0), Held: d.held, Reordered: r.Reordered, Duplicates: r.Duplicates,
		EventsPerSecond: r.EventsPerSecond, LatencyP50: 1000 * r.LatencyP50, LatencyP99: 1000 * r.LatencyP99,
		Workers: d.cmd.Workers, Partitions: d.partitions,
	}
	if d.cmd.JSON {
		if err := writeJSON(d.session.stdout, body); err != nil {
			return err
		}
	} else {
		d.say("\ncommitted %d, received %d, lost %d, reordered %d, duplicates %d\n%.0f events/s, latency from commit to subscriber p50 %.1f ms, p99 %.1f ms",
			body.Committed, body.Received, body.Lost, body.Reordered, body.Duplicates, body.EventsPerSecond, body.LatencyP50, body.LatencyP99)
	}
	if !body.ok() || !r.OK() {
		for _, f := range r.Faults {
			if d.held == 0 || f.Kind != ledger.KindLost {
				fmt.Fprintln(d.session.stderr, f)
			}
		}
		return errSilent
	}
	return nil
}
