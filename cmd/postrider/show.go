package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/internal/chaos"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/lease"
)

type showFlags struct {
	Chaos         bool          `help:"Show what is promised: a steady load on private servers, while workers are killed and frozen, the broker's leader is stopped and PostgreSQL is restarted. Ends with a verdict."`
	ChaosDuration time.Duration `help:"How long mishaps begin, 0 to 24 h; each happens once at least. With --chaos." default:"1m" placeholder:"DURATION"`
	Seed          uint64        `help:"Order and victims of the mishaps; 0: drawn, and told. With --chaos."`
	Verbose       bool          `help:"Print what the workers log, too. With --chaos."`
}

const (
	// showTTL is the default lifetime of leases in a show: nobody likes to watch for ten seconds.
	showTTL = 3 * time.Second
	// defaultChaosDuration is the flag's default.
	defaultChaosDuration = time.Minute
	// leastRate is the least number of events a second: each mishap waits for events committed since.
	leastRate = 4
	// showRate is the default number of generated events a second.
	showRate = 300
)

func (c *devCmd) validateShow() error {
	switch {
	case !c.Chaos:
		if c.Verbose || c.Seed != 0 || c.ChaosDuration != defaultChaosDuration {
			return fmt.Errorf("%w: --chaos-duration, --seed and --verbose mean nothing without --chaos", errRefused)
		}
	case c.ExitWhenDrained:
		return fmt.Errorf("%w: --chaos ends by itself; leave out --exit-when-drained", errRefused)
	case c.DatabaseURL != "" || c.NatsURL != "" || c.DataDir != "":
		return fmt.Errorf("%w: --chaos breaks its servers; leave out --database-url, --nats-url and --data-dir", errRefused)
	case c.Workers < 2:
		return fmt.Errorf("%w: --chaos needs --workers of at least 2: where one is struck, another takes over", errRefused)
	case c.rate(showRate) < leastRate:
		return fmt.Errorf("%w: --chaos needs a --rate of at least %d, got %g", errRefused, leastRate, c.rate(showRate))
	case c.ChaosDuration < 0 || c.ChaosDuration > 24*time.Hour:
		return fmt.Errorf("%w: --chaos-duration must lie between 0s and 24h, got %s", errRefused, c.ChaosDuration)
	}
	return nil
}

// show is a development cluster that is broken on purpose.
type show struct {
	*dev

	seed   uint64
	again  string    // the command that repeats the show, where it is not this one's
	more   *scrutiny // the report on a user's servers
	given  []string  // the given flags of workers, for the processes
	engine *chaos.Engine
}

// passedOn returns this command's worker flags that differ from their defaults, except those that a show sets.
func (s *session) passedOn() (flags []string) {
	of := func(command string) (found []*kong.Flag) {
		for _, node := range s.kong.Model.Children {
			if node.Name == command {
				found = node.Flags
			}
		}
		return found
	}
	workers := map[string]bool{}
	for _, f := range of("run") {
		workers[f.Name] = !strings.HasPrefix(f.Name, "http-")
	}
	for _, own := range []string{"database-url", "nats-url", "schema", "partitions", "json"} {
		workers[own] = false
	}
	for _, f := range of("dev") {
		value := fmt.Sprint(f.Target.Interface())
		otherwise := f.Default
		if d, err := time.ParseDuration(otherwise); err == nil {
			otherwise = d.String()
		}
		if !workers[f.Name] || value == otherwise || f.Target.IsZero() && !f.HasDefault {
			continue
		}
		if list, ok := f.Target.Interface().([]string); ok {
			for _, one := range list {
				flags = append(flags, "--"+f.Name+"="+one)
			}
			continue
		}
		flags = append(flags, "--"+f.Name+"="+value)
	}
	return flags
}

// show starts the cluster, breaks its parts by turns, and prints the verdict.
func (c *devCmd) show(s *session) error {
	c.NatsNodes = 3 // two remain when a leader stops
	log := slog.New(slog.DiscardHandler)
	if c.Verbose {
		log = s.logger()
	}
	v := &show{dev: &dev{cmd: c, session: s, log: log, ledger: ledger.New()}, seed: cmp.Or(c.Seed, 1+rand.Uint64N(1_000_000)), given: s.passedOn()}
	if !slices.ContainsFunc(v.given, func(flag string) bool { return strings.HasPrefix(flag, "--lease-ttl=") }) {
		c.LeaseTTL = showTTL
	}
	defer v.stop()
	if err := v.start(s.ctx, v.startCrew); err != nil {
		return err
	}
	v.tellAddresses()
	return v.run(s.ctx, 1, v.verdict)
}

// startCrew starts the workers as processes, as in production, and makes the engine.
func (v *show) startCrew(ctx context.Context) error {
	var log io.Writer
	if v.cmd.Verbose {
		log = v.session.stderr
	}
	crew, err := chaos.NewCrew(chaos.CrewConfig{
		Arguments: append([]string{
			"run", "--http-addr=off", "--create-stream", "--stream-replicas=3", "--lease-ttl=" + v.cmd.LeaseTTL.String(), "--schema=" + v.cmd.Schema,
		}, v.given...),
		Environment: []string{"POSTRIDER_DATABASE_URL=" + v.databaseURL, "POSTRIDER_NATS_URL=" + v.natsURL},
		Workers:     v.cmd.Workers, Log: log,
	})
	if err != nil {
		return err
	}
	return v.startWith(ctx, crew, crew.KillWorker(), crew.FreezeWorker(), v.stopLeader(), v.restartPostgres())
}

// startWith starts the workers, and makes the engine with these mishaps.
func (v *show) startWith(ctx context.Context, crew *chaos.Crew, mishaps ...chaos.Mishap) error {
	v.later(ctx, "workers", 15*time.Second, crew.Stop)
	leases, err := lease.NewStore(ctx, v.pool, v.cmd.Schema)
	if err != nil {
		return err
	}
	config := chaos.Config{
		Crew: crew, Leases: leases, Judge: ledger.Config{Ledger: v.ledger, Ordering: ledger.Ordering(v.cmd.Ordering)},
		Mishaps: mishaps, Seed: v.seed, Duration: v.cmd.ChaosDuration,
	}
	if v.more != nil { // the servers' distance is unknown
		config.Judge.ContiguousVersions, config.Behind = true, verifyBehind
	}
	if v.engine, err = chaos.New(config); err != nil {
		return err
	}
	v.say("Workers      %d processes, %d partitions, leases of %s", v.cmd.Workers, v.partitions, v.cmd.LeaseTTL)
	return crew.Start(ctx)
}

// stopLeader stops the stream's leader, and starts the node again when another one leads.
func (v *show) stopLeader() chaos.Mishap {
	return chaos.Mishap{Kind: "broker's leader stopped", Strike: func(ctx context.Context, _ *rand.Rand) (chaos.Struck, error) {
		node, err := v.leader(ctx)
		if err != nil {
			return chaos.Struck{}, err
		}
		return chaos.Struck{
			Text: fmt.Sprintf("stopped node %d, the broker's leader", node+1), Then: "delivery went on",
			Mend: func(ctx context.Context) error { return v.broker.RestartNode(ctx, node) },
		}, v.broker.StopNode(node)
	}}
}

// leader returns the number of the stream's leader, from 0.
func (v *show) leader(ctx context.Context) (int, error) {
	js, err := streams.JetStream(v.nc, "")
	if err != nil {
		return 0, err
	}
	stream, err := js.Stream(ctx, v.cmd.Stream)
	if err != nil {
		return 0, fmt.Errorf("look for the stream's leader: %w", err)
	}
	for i := range v.cmd.NatsNodes {
		if node := v.broker.Server(i); node != nil && node.Name() == stream.CachedInfo().Cluster.Leader {
			return i, nil
		}
	}
	return 0, errors.New("no node leads the stream")
}

func (v *show) restartPostgres() chaos.Mishap {
	return chaos.Mishap{Kind: "PostgreSQL restarted", Strike: func(ctx context.Context, _ *rand.Rand) (chaos.Struck, error) {
		return chaos.Struck{Text: "restarted PostgreSQL", Then: "delivery went on"}, v.postgres.Restart(ctx)
	}}
}

// run feeds the cluster while the engine breaks it, with monitor and screen, and prints the verdict before these end.
func (v *show) run(interrupt context.Context, producers int, tell func(chaos.Verdict) error) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(interrupt))
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel(nil)
	if err := v.beside(ctx, cancel, &beside); err != nil {
		return err
	}
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(interrupt, func() { stop(nil) })()
	if len(v.cmd.Import) > 0 { // before anything is broken
		if err := v.produce(running); err != nil {
			return err
		}
	}
	load, err := v.load(v.cmd.rate(showRate))
	if err != nil {
		return err
	}
	load.Outages, load.Rate = true, load.Rate/float64(producers)
	load.Unruly = producers > 1 // one producer's commits cannot pass an open transaction
	ended := make(chan struct{})
	var verdict chaos.Verdict
	go func() {
		defer close(ended)
		verdict = v.engine.Run(running, func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			for range producers {
				group.Go(func() error { return load.Run(ctx) })
			}
			return group.Wait()
		})
	}()
	v.watch(ended)
	return errors.Join(tell(verdict), context.Cause(ctx))
}

// beside starts the monitor and the subscriber.
func (v *show) beside(ctx context.Context, fail context.CancelCauseFunc, running *sync.WaitGroup) error {
	if v.cmd.HTTPAddr != "off" {
		m := monitorCmd{
			databaseFlags: databaseFlags{DatabaseURL: v.databaseURL, Schema: v.cmd.Schema}, httpFlags: v.cmd.httpFlags,
			Assignment: v.cmd.Assignment, LeaseTTL: v.cmd.LeaseTTL,
		}
		listens := make(chan string, 1)
		running.Go(func() {
			if err := m.serve(ctx, v.log, func(url string) { listens <- url }); err != nil {
				fail(err)
			}
		})
		select {
		case v.monitor = <-listens:
			v.say("Monitor      %s", v.monitor)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	filter, err := eventsFilter(v.cmd.Subject)
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	running.Go(func() {
		sub := subscription{apiPrefix: v.apiPrefix, stream: v.cmd.Stream, filter: filter, from: jetstream.DeliverAllPolicy}
		if err := subscribe(ctx, v.nc, sub, func() { close(ready) }, v.judge); err != nil {
			fail(err)
		}
	})
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// judge gives a message to the engine.
func (v *show) judge(msg jetstream.Msg) error {
	m, err := ledger.ReadMessage(msg)
	if err != nil && v.more == nil { // a message of people who try the addresses
		v.log.Warn("a message that is no event", "subject", msg.Subject(), "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	v.engine.Receive(m)
	return nil
}

// repeat returns the command for the same mishaps in the same order.
func (v *show) repeat() string {
	if v.again != "" {
		return v.again
	}
	words := []string{
		"postrider dev --chaos", fmt.Sprintf("--seed=%d", v.seed), "--chaos-duration=" + v.cmd.ChaosDuration.String(),
		fmt.Sprintf("--workers=%d", v.cmd.Workers), fmt.Sprintf("--partitions=%d", v.cmd.Partitions),
	}
	if v.cmd.Rate != nil {
		words = append(words, fmt.Sprintf("--rate=%g", *v.cmd.Rate))
	}
	words = append(words, v.given...)
	for _, name := range v.cmd.Import {
		words = append(words, "--import="+name)
	}
	return strings.Join(words, " ")
}

// later has stop called at the end, within that time.
func (d *dev) later(ctx context.Context, what string, within time.Duration, stop func(context.Context) error) {
	d.stops = append(d.stops, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		if err := stop(ctx); err != nil {
			d.log.Warn("did not stop in good order", "error", fmt.Errorf("%s: %w", what, err))
		}
	})
}
