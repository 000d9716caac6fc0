package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/chaos"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/outbox/schema"
)

type verifyCmd struct {
	DatabaseURL string `help:"PostgreSQL URL or DSN; without it the PG* variables count." placeholder:"URL" env:"POSTRIDER_DATABASE_URL,DATABASE_URL"`
	natsFlags
	Duration       time.Duration `help:"How long mishaps begin, 0 to 24 h; each happens once at least." default:"1m" env:"-"`
	Seed           uint64        `help:"Order and victims of the mishaps; 0: drawn, and told." env:"-"`
	Workers        int           `help:"Worker processes: 2 to 64." default:"3" env:"-"`
	Rate           float64       `help:"Events a second, at least 4." default:"300" env:"-"`
	StreamReplicas int           `help:"Replicas of a created stream: 1, 3 or 5." default:"1"`
	Verbose        bool          `help:"Print what the workers log, too." env:"-"`
	JSON           bool          `help:"Print one JSON object at the end, and nothing else to standard output." name:"json"`
}

const (
	// verifyPartitions are enough for any number of workers to have to move some.
	verifyPartitions = 16
	// verifyProducers append at once: only then can one commit pass another.
	verifyProducers = 4
	// verifyBehind bounds an event's wait while delivery counts as caught up: slow servers break no promise.
	verifyBehind = 2 * time.Second
	// takeoverGrace bounds the time beyond a lease for which a crash may leave a partition without owner.
	takeoverGrace = 2 * time.Second
	// throughVariable names the proxy for all connections of a worker.
	throughVariable = "POSTRIDER_VERIFY_THROUGH"
	// postgresServer and natsServer are the kinds of servers that the proxy knows.
	postgresServer, natsServer = "PostgreSQL", "NATS"
	// batchEnd is the header of a batch's last message, which makes NATS store it.
	batchEnd = "Nats-Batch-Commit"
)

func (c *verifyCmd) Help() string {
	return `On your servers, in a schema and a stream of its own that are removed at the end: workers are killed,
frozen, held up and cut off, while every event is accounted for. The status is 1 where a promise broke.
The role needs CREATE on the database, the NATS user the rights to make and delete a stream.

Examples:
  postrider verify --database-url postgres://relay@db/app --nats-url nats://n1,nats://n2 --stream-replicas 3
  postrider verify --duration 10m --workers 5 --rate 1000 --json`
}

func (c *verifyCmd) validate() error {
	database := databaseFlags{DatabaseURL: c.DatabaseURL, Schema: schema.DefaultSchema}
	if err := errors.Join(database.validate(), createFlags{StreamReplicas: c.StreamReplicas}.validate()); err != nil {
		return err
	}
	switch {
	case c.Duration < 0 || c.Duration > 24*time.Hour:
		return fmt.Errorf("%w: --duration must lie between 0s and 24h, got %s", errRefused, c.Duration)
	case c.Workers < 2 || c.Workers > 64:
		return fmt.Errorf("%w: --workers must lie between 2 and 64, got %d", errRefused, c.Workers)
	case c.Rate < leastRate:
		return fmt.Errorf("%w: --rate must be at least %d, got %g", errRefused, leastRate, c.Rate)
	}
	return nil
}

// verification is a show on a user's servers: it breaks no server, and removes all that it makes there.
type verification struct {
	*show

	flags   *verifyCmd
	scratch *scratch
}

func (c *verifyCmd) Run(s *session) error {
	outlivePipe()
	if err := c.validate(); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if c.Verbose {
		log = s.logger()
	}
	seed := cmp.Or(c.Seed, 1+rand.Uint64N(1_000_000))
	x := newScratch()
	settings := &devCmd{
		DatabaseURL: c.DatabaseURL, NatsURL: c.NatsURL, Schema: x.name, Workers: c.Workers, Rate: &c.Rate, JSON: c.JSON,
		showFlags: showFlags{ChaosDuration: c.Duration, Verbose: c.Verbose}, httpFlags: httpFlags{HTTPAddr: "off"},
	}
	settings.Stream, settings.Subject, settings.LeaseTTL, settings.Ordering = x.name, x.subject(), showTTL, string(delivery.OrderPartition)
	again := fmt.Sprintf("postrider verify --seed=%d --duration=%s --workers=%d --rate=%g --stream-replicas=%d", seed, c.Duration, c.Workers, c.Rate, c.StreamReplicas)
	v := &verification{flags: c, scratch: x, show: &show{
		dev: &dev{cmd: settings, session: s, log: log, ledger: ledger.New(), partitions: verifyPartitions}, seed: seed, again: again,
		more: &scrutiny{Scratch: x.name, Bound: (showTTL + takeoverGrace).Seconds()},
	}}
	defer v.stop()
	for _, step := range []func(context.Context) error{v.connect, v.prepareScratch, v.startProxied} {
		if err := step(s.ctx); err != nil {
			return err
		}
	}
	var verdict chaos.Verdict
	failed := v.run(s.ctx, verifyProducers, func(given chaos.Verdict) (err error) {
		verdict = given
		v.more.Doctor, err = v.doctor(s)
		return err
	})
	v.stop()
	verdict.Failure = errors.Join(verdict.Failure, failed)
	v.more.Interrupted = s.ctx.Err() != nil
	for _, i := range verdict.Incidents {
		v.more.Takeover = max(v.more.Takeover, i.Moved.Seconds())
	}
	return v.verdict(verdict)
}

func (v *verification) connect(ctx context.Context) (err error) {
	database := databaseFlags{DatabaseURL: v.cmd.DatabaseURL, Schema: v.cmd.Schema}
	if v.pool, err = database.pool(ctx, "postrider verify", verifyProducers+4); err != nil {
		return err
	}
	v.stops = append(v.stops, v.pool.Close)
	if v.nc, v.apiPrefix, err = v.flags.natsFlags.connect("postrider verify", v.log); err != nil {
		return err
	}
	v.stops = append(v.stops, v.nc.Close)
	return nil
}

// prepareScratch makes schema and stream, which any end removes. An interruption waits until both exist: else nobody would know whether
// they do.
func (v *verification) prepareScratch(ctx context.Context) error {
	v.say("Scratch      schema and stream %s, removed at the end", v.scratch.name)
	v.stops = append(v.stops, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalPatience)
		defer cancel()
		v.more.Left = v.scratch.remove(ctx)
		for _, command := range v.more.Left {
			fmt.Fprintln(v.session.stderr, "left behind; remove it by: "+command)
		}
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalPatience)
	defer cancel()
	if err := v.scratch.makeSchema(ctx, v.pool); err != nil {
		return err
	}
	m, err := migrator(databaseFlags{DatabaseURL: v.cmd.DatabaseURL, Schema: v.cmd.Schema}, v.log,
		schema.Config{Partitions: v.partitions, ControlPrefix: v.scratch.control()})
	if err != nil {
		return err
	}
	if err := m.Up(ctx); err != nil {
		return named(err)
	}
	if err := v.scratch.slowDown(ctx); err != nil {
		return err
	}
	info, err := checkSchema(ctx, v.pool, schema.Config{Schema: v.cmd.Schema, Partitions: v.partitions})
	if err != nil {
		return err
	}
	subject, err := wire.ParseSubject(v.cmd.Subject)
	if err != nil {
		return err
	}
	return v.scratch.makeStream(ctx, v.nc, streams.StreamConfig{
		APIPrefix: v.apiPrefix, Subject: subject, Control: info.control(), Replicas: v.flags.StreamReplicas, Logger: v.log,
	})
}

// startProxied starts the workers behind a proxy.
func (v *verification) startProxied(ctx context.Context) error {
	proxy, err := chaos.NewProxy()
	if err != nil {
		return err
	}
	v.stops = append(v.stops, proxy.Close)
	config := chaos.CrewConfig{
		Arguments: []string{
			"run", "--http-addr=off", "--schema=" + v.cmd.Schema, "--stream=" + v.cmd.Stream, "--subject=" + v.cmd.Subject, "--lease-ttl=" + v.cmd.LeaseTTL.String(),
		},
		Environment: []string{throughVariable + "=" + proxy.Address(), envDisabled + "=true"},
		Workers:     v.cmd.Workers,
	}
	for name, value := range map[string]string{
		"--nats-context": v.flags.NatsContext, "--nats-creds": v.flags.NatsCreds, "--nats-ca": v.flags.NatsCA, "--nats-inbox-prefix": v.flags.NatsInboxPrefix,
	} {
		if value != "" {
			config.Arguments = append(config.Arguments, name+"="+value)
		}
	}
	for name, value := range map[string]string{"POSTRIDER_DATABASE_URL": v.cmd.DatabaseURL, "POSTRIDER_NATS_URL": v.cmd.NatsURL} {
		if value != "" {
			config.Environment = append(config.Environment, name+"="+value)
		}
	}
	if v.flags.Verbose {
		config.Log = v.session.stderr
	}
	crew, err := chaos.NewCrew(config)
	if err != nil {
		return err
	}
	load, err := v.load(1)
	if err != nil {
		return err
	}
	conditional := regexp.MustCompile(`PUB ` + regexp.QuoteMeta(v.scratch.control()) + `\.\S+ `)
	return v.startWith(ctx, crew,
		crew.KillWorker(), crew.KillUnmarked(v.scratch.lockHistory), crew.FreezeWorker(), load.Slow(slowStreams),
		proxy.Hold(crew, natsServer, postgresServer), proxy.Late(crew, natsServer, batchEnd, conditional), proxy.Cut(postgresServer), proxy.Cut(natsServer))
}

// doctor returns the findings of `doctor` while the workers run.
func (v *verification) doctor(s *session) ([]finding, error) {
	c := doctorCmd{
		databaseFlags: databaseFlags{DatabaseURL: v.cmd.DatabaseURL, Schema: v.cmd.Schema}, natsFlags: v.flags.natsFlags,
		streamFlags: v.cmd.streamFlags, Ordering: v.cmd.Ordering,
	}
	return c.findings(context.WithoutCancel(s.ctx), v.log)
}
